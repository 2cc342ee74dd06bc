"""Slices of a back-test."""

from archiver.time_range import TimeRange
from moirae.backtest.slices import DAY, BacktestRange, choose_days


def list_slices(tested: BacktestRange, days: int) -> list[TimeRange]:
    slices: list[TimeRange] = []
    time_range = tested.slice_before(None, days)
    while time_range is not None:
        slices.append(time_range)
        assert time_range.start is not None
        time_range = tested.slice_before(max(time_range.start, tested.start), days)
    return slices


def test_days_are_newest_first_and_the_first_one_has_the_overlap() -> None:
    tested = BacktestRange(start=DAY + 5, end=3 * DAY + 9, newest=3 * DAY + 2, overlap=7)
    first = TimeRange(3 * DAY, 3 * DAY + 9)
    assert list_slices(tested, 1) == [
        first,
        TimeRange(2 * DAY, 3 * DAY),
        TimeRange(DAY - 2, 2 * DAY),
    ]
    assert list_slices(tested, 2) == [first, TimeRange(DAY - 2, 3 * DAY)]


def test_a_range_far_beyond_the_newest_row_is_no_slices_of_its_own() -> None:
    tested = BacktestRange(start=DAY, end=900 * DAY, newest=2 * DAY - 1)
    assert list_slices(tested, 1) == [TimeRange(DAY, 900 * DAY)]


def test_quick_slices_grow_and_those_with_many_events_shrink() -> None:
    assert choose_days(1, 0.05, 5) == 8
    assert choose_days(1, 0.2, 5) == 2
    assert choose_days(32, 0.1, 5) == 32
    assert choose_days(4, 2.0, 5) == 4
    assert choose_days(4, 9.0, 5) == 2
    assert choose_days(2, 0.1, 500_000) == 1
