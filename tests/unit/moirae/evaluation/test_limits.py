"""Limits of time and number of events of a rule."""

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from moirae.alerts.event import EventRow
from moirae.evaluation.limits import (
    find_failing_row,
    is_over_limit,
    statement_limit,
    truncate_event_rows,
)

MINUTE = 60_000_000


def _make_events(times: list[int]) -> list[EventRow]:
    return [EventRow(ts, {"n": number}) for number, ts in enumerate(times)]


def test_waiting_for_a_busy_machine_is_not_counted() -> None:
    assert not is_over_limit(20.0, cpu_seconds=3.0, wall_seconds=150.0)
    assert is_over_limit(20.0, cpu_seconds=21.0, wall_seconds=21.0)
    assert is_over_limit(20.0, cpu_seconds=0.0, wall_seconds=201.0)


def test_time_limit_grows_with_rows_and_rules() -> None:
    assert statement_limit(20.0, 0, 1) == 20.0
    assert statement_limit(20.0, 1_000_000, 1) == 70.0
    assert statement_limit(20.0, 0, 1001) == 520.0


@settings(deadline=None)
@given(st.lists(st.integers(0, 10 * MINUTE)), st.integers(1, 20) | st.none(), st.integers(1, 20))
def test_events_over_the_limit_are_dropped_from_the_newest(
    times: list[int], limit: int | None, usual: int
) -> None:
    events = _make_events(times)
    remaining = truncate_event_rows(events, limit, usual)
    minutes = 1 if not times else max(1, -(-(max(times) - min(times)) // MINUTE))
    assert len(remaining) == min(len(events), limit or usual * minutes)
    assert sorted(event.ts for event in remaining) == sorted(times)[: len(remaining)]
    assert all(event in events for event in remaining)


def test_default_limit_counts_per_minute_of_event_time() -> None:
    day = _make_events([minute * MINUTE for minute in range(1440)])
    assert truncate_event_rows(day, None, 10) == day
    assert len(truncate_event_rows(day, 10, 10)) == 10


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), max_size=200))
def test_failing_row_is_located_by_bisection(values: list[int]) -> None:
    rows = pa.table({"v": pa.array(values, pa.int64())})
    sizes = []

    def fails(part: pa.Table) -> bool:
        sizes.append(len(part))
        return 0 in part["v"].to_pylist()

    row = find_failing_row(rows, fails)
    if 0 in values:
        assert row is not None
        assert row["v"].to_pylist() == [0]
    else:
        assert row is None
    assert len(sizes) <= 9


def test_failure_of_all_rows_together_has_no_failing_row() -> None:
    rows = pa.table({"v": [1, 2, 3]})
    assert find_failing_row(rows, lambda part: len(part) == 3) is None
