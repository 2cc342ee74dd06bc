"""Slices of a back-test."""

from archiver.time_range import TimeRange
from moirae.backtest.slices import DAY, BacktestRange


def test_days_are_newest_first_and_the_first_one_has_the_overlap() -> None:
    tested = BacktestRange(start=DAY + 5, end=3 * DAY + 9, newest=3 * DAY + 2, overlap=7)
    assert list(tested.slices()) == [
        TimeRange(3 * DAY, 3 * DAY + 9),
        TimeRange(2 * DAY, 3 * DAY),
        TimeRange(DAY - 2, 2 * DAY),
    ]


def test_a_range_far_beyond_the_newest_row_is_no_slices_of_its_own() -> None:
    tested = BacktestRange(start=DAY, end=900 * DAY, newest=2 * DAY - 1)
    assert list(tested.slices()) == [TimeRange(DAY, 900 * DAY)]
