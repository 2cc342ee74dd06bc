"""Watermarks of streams and partitions."""

import pytest

from archiver.ingest.watermarks import (
    PartitionProgress,
    ReadProgress,
    lowest,
    partition_watermarks,
    watermark,
)

LATENESS = 10
SECOND = 1_000_000


def _read_to(newest: int, advanced: int | None = None) -> ReadProgress:
    """Progress after rows that were not ahead of the clock."""
    return ReadProgress(newest, advanced, newest)


def test_watermark_is_behind_the_newest_row_by_the_lateness() -> None:
    assert watermark(ReadProgress(), {}, LATENESS) is None
    assert watermark(_read_to(100), {}, LATENESS) == 90
    assert watermark(_read_to(100, advanced=95), {}, LATENESS) == 95


def test_slowest_partition_determines_the_watermark() -> None:
    partitions = {
        "0": PartitionProgress(5, _read_to(100)),
        "1": PartitionProgress(2, _read_to(60)),
        "2": PartitionProgress(0, ReadProgress()),
    }
    assert partition_watermarks(partitions, LATENESS) == {"0": 90, "1": 50, "2": None}
    assert watermark(_read_to(100), partitions, LATENESS) == 50
    assert watermark(_read_to(100, advanced=70), partitions, LATENESS) == 70


def test_progress_never_goes_back() -> None:
    progress = ReadProgress(100, 50, 80, 30)
    assert progress.with_rows(90, 70) == progress
    assert progress.with_rows(None, None) == progress
    assert progress.with_advanced(40) == progress
    assert progress.with_advanced(20, ahead=True) == progress
    raised = progress.with_rows(110, 105).with_advanced(60).with_advanced(40, ahead=True)
    assert raised == ReadProgress(110, 60, 105, 40)


def test_rows_ahead_of_the_clock_do_not_move_the_watermark() -> None:
    progress = _read_to(100).with_rows(385, None)
    assert progress.watermark(LATENESS) == 90
    assert ReadProgress().with_rows(385, None).watermark(LATENESS) is None


@pytest.mark.parametrize(
    ("clock", "is_silent", "expected"),
    [
        (200, False, None),
        (384 * SECOND, False, None),
        (385 * SECOND, False, 375 * SECOND),
        (400 * SECOND, False, 375 * SECOND),
        (200 * SECOND, True, 190 * SECOND),
        (400 * SECOND, True, 375 * SECOND),
        (100 * SECOND + 999_999, True, None),
        (101 * SECOND, True, 91 * SECOND),
    ],
)
def test_watermark_follows_rows_ahead_once_they_are_past_or_no_others_come(
    clock: int, is_silent: bool, expected: int | None
) -> None:
    progress = _read_to(100 * SECOND).with_rows(385 * SECOND, None)
    assert progress.follow_rows_ahead(10 * SECOND, clock, is_silent) == expected
    if expected is not None:
        followed = progress.with_advanced(expected, ahead=True)
        assert followed.watermark(10 * SECOND) == expected
        assert followed.watermark_by_rows(10 * SECOND) == 90 * SECOND
        assert followed.follow_rows_ahead(10 * SECOND, clock, is_silent) is None


def test_watermark_follows_only_rows_ahead() -> None:
    for progress in (ReadProgress(), _read_to(100), _read_to(100).with_rows(150, 150)):
        assert progress.follow_rows_ahead(LATENESS, 10_000, is_silent=True) is None
    only_ahead = ReadProgress().with_rows(385, None)
    assert only_ahead.follow_rows_ahead(LATENESS, 300, is_silent=False) is None
    assert only_ahead.follow_rows_ahead(LATENESS, 300, is_silent=True) == 290


def test_lowest_watermark_is_none_as_long_as_a_stream_has_none() -> None:
    assert lowest([30, 20]) == 20
    assert lowest([30, None]) is None
    assert lowest([]) is None
