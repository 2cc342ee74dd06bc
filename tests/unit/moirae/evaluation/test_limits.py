"""What a rule may take."""

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


def _found(times: list[int]) -> list[EventRow]:
    return [EventRow(ts, {"n": number}) for number, ts in enumerate(times)]


def test_a_busy_machine_makes_no_rule_slow() -> None:
    assert not is_over_limit(20.0, cpu_seconds=3.0, wall_seconds=150.0)
    assert is_over_limit(20.0, cpu_seconds=21.0, wall_seconds=21.0)
    assert is_over_limit(20.0, cpu_seconds=0.0, wall_seconds=201.0)


def test_many_rows_and_many_rules_may_take_longer() -> None:
    assert statement_limit(20.0, 0, 1) == 20.0
    assert statement_limit(20.0, 1_000_000, 1) == 70.0
    assert statement_limit(20.0, 0, 1001) == 520.0


@settings(deadline=None)
@given(st.lists(st.integers(0, 10 * MINUTE)), st.integers(1, 20) | st.none(), st.integers(1, 20))
def test_the_first_by_time_stand(times: list[int], limit: int | None, usual: int) -> None:
    found = _found(times)
    left = truncate_event_rows(found, limit, usual)
    minutes = 1 if not times else max(1, -(-(max(times) - min(times)) // MINUTE))
    assert len(left) == min(len(found), limit or usual * minutes)
    assert sorted(one.ts for one in left) == sorted(times)[: len(left)]
    assert all(one in found for one in left)


def test_history_read_at_once_is_no_flood() -> None:
    day = _found([minute * MINUTE for minute in range(1440)])
    assert truncate_event_rows(day, None, 10) == day
    assert len(truncate_event_rows(day, 10, 10)) == 10


@settings(deadline=None)
@given(st.lists(st.integers(0, 5), max_size=200))
def test_the_row_at_fault_is_found(values: list[int]) -> None:
    rows = pa.table({"v": pa.array(values, pa.int64())})
    asked = []

    def fails(part: pa.Table) -> bool:
        asked.append(len(part))
        return 0 in part["v"].to_pylist()

    row = find_failing_row(rows, fails)
    if 0 in values:
        assert row is not None
        assert row["v"].to_pylist() == [0]
    else:
        assert row is None
    assert len(asked) <= 9


def test_where_only_all_rows_together_fail_none_is_at_fault() -> None:
    rows = pa.table({"v": [1, 2, 3]})
    assert find_failing_row(rows, lambda part: len(part) == 3) is None
