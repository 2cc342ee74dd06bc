"""Recently archived rows in memory: which ranges are complete."""

from collections.abc import Iterable
from datetime import timedelta

import pyarrow as pa

from archiver.delta.schema import StreamSchema
from archiver.read.recent_rows import RecentRows
from archiver.time_range import TimeRange

SCHEMA = StreamSchema(
    "s", {"ts": "timestamp", "n": "bigint"}, "ts", None, (), timedelta(0), timedelta(0)
)
BUDGET = 1 << 20  # bytes


def rows_at(times: Iterable[int]) -> pa.Table:
    """Rows whose number is their event time in microseconds."""
    numbers = pa.array(times, pa.int64())
    times_of_rows = numbers.cast(pa.timestamp("us", tz="UTC"))
    extra = pa.nulls(len(numbers), pa.string())
    return pa.table({"ts": times_of_rows, "n": numbers, "_extra": extra})


def numbers(rows: pa.Table | None) -> list[int] | None:
    return None if rows is None else rows["n"].to_pylist()


def test_range_is_filtered_by_event_time() -> None:
    recent = RecentRows(SCHEMA, None, BUDGET)
    recent.add(rows_at([1, 2, 3]))
    recent.add(rows_at([4, 5]))
    assert numbers(recent.read(TimeRange(2, 5))) == [2, 3, 4]
    assert numbers(recent.read(TimeRange(None, None))) == [1, 2, 3, 4, 5]
    assert numbers(recent.read(TimeRange(6, None))) == []


def test_range_before_the_rows_of_this_process_is_incomplete() -> None:
    recent = RecentRows(SCHEMA, 10, BUDGET)
    recent.add(rows_at([10, 11, 12]))
    assert recent.read(TimeRange(10, None)) is None
    assert recent.read(TimeRange(None, 5)) is None
    assert numbers(recent.read(TimeRange(11, None))) == [11, 12]


def test_dropped_rows_make_earlier_ranges_incomplete() -> None:
    recent = RecentRows(SCHEMA, None, BUDGET)
    for start in (0, 10, 20):
        recent.add(rows_at(range(start, start + 3)))
    recent.drop_before(13)
    assert recent.complete_from == 13
    assert recent.read(TimeRange(12, None)) is None
    assert numbers(recent.read(TimeRange(13, None))) == [20, 21, 22]


def test_oldest_batches_over_the_budget_are_dropped() -> None:
    batch = rows_at(range(100))
    recent = RecentRows(SCHEMA, None, budget=batch.nbytes)
    recent.add(batch)
    recent.add(rows_at(range(100, 200)))
    assert recent.complete_from == 100
    assert recent.estimate_rows(TimeRange(150, 160)) == 100
    assert recent.estimate_rows(TimeRange(99, None)) is None
