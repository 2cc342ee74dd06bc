"""Time limits of statements, limits of events, and the search for a failing row."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from moirae.alerts.event import EventRow
from moirae.evaluation.limits import (
    find_failing_row,
    find_failing_rows,
    statement_limit,
    truncate_event_rows,
)
from tests.unit.moirae.evaluation.builders import make_rows

MINUTE = 60_000_000


def _event_rows(times: list[int]) -> list[EventRow]:
    return [EventRow(ts, {"n": number}) for number, ts in enumerate(times)]


def test_limit_grows_with_rows_and_rules() -> None:
    assert statement_limit(20.0, 0, 1) == 20.0
    assert statement_limit(20.0, 1_000_000, 1) == 70.0
    assert statement_limit(20.0, 0, 1001) == 520.0


@settings(deadline=None)
@given(st.lists(st.integers(0, 10 * MINUTE)), st.integers(1, 20) | st.none(), st.integers(1, 20))
def test_first_event_rows_by_time_are_kept(
    times: list[int], limit: int | None, per_minute: int
) -> None:
    event_rows = _event_rows(times)
    kept_rows = truncate_event_rows(event_rows, limit, per_minute)
    minutes = 1 if not times else max(1, -(-(max(times) - min(times)) // MINUTE))
    assert len(kept_rows) == min(len(event_rows), limit or per_minute * minutes)
    assert sorted(row.ts for row in kept_rows) == sorted(times)[: len(kept_rows)]
    assert all(row in event_rows for row in kept_rows)


def test_limit_per_minute_allows_history_that_is_read_at_once() -> None:
    day = _event_rows([minute * MINUTE for minute in range(1440)])
    assert truncate_event_rows(day, None, 10) == day
    assert len(truncate_event_rows(day, 10, 10)) == 10


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), max_size=200))
def test_failing_row_is_found_by_bisection(values: list[int]) -> None:
    rows = pa.table({"v": pa.array(values, pa.int64())})
    sizes: list[int] = []

    def has_failure(part: pa.Table) -> bool:
        sizes.append(len(part))
        return 0 in part["v"].to_pylist()

    row = find_failing_row(rows, has_failure)
    if 0 in values:
        assert row is not None
        assert row["v"].to_pylist() == [0]
    else:
        assert row is None
    assert len(sizes) <= 9


def test_no_row_is_blamed_if_only_all_rows_together_fail() -> None:
    rows = pa.table({"v": [1, 2, 3]})
    assert find_failing_row(rows, lambda part: len(part) == 3) is None


def test_each_failing_row_is_found() -> None:
    rows = make_rows(*map(float, range(50)))
    failing = {3.0, 4.0, 41.0}

    def has_failure(part: pa.Table) -> bool:
        return not failing.isdisjoint(part["v"].to_pylist())

    rows_found = find_failing_rows(rows, has_failure, 3)
    assert rows_found is not None and rows_found["v"].to_pylist() == [3.0, 4.0, 41.0]
    assert find_failing_rows(rows, has_failure, 2) is None
    assert find_failing_rows(rows, lambda part: False, 3) is None
