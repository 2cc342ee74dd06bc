"""Watermarks of streams and partitions."""

from archiver.ingest.watermarks import (
    PartitionProgress,
    ReadProgress,
    lowest,
    partition_watermarks,
    watermark,
)

LATENESS = 10


def test_watermark_is_behind_the_newest_row_by_the_lateness() -> None:
    assert watermark(ReadProgress(), {}, LATENESS) is None
    assert watermark(ReadProgress(newest=100), {}, LATENESS) == 90
    assert watermark(ReadProgress(newest=100, advanced=95), {}, LATENESS) == 95


def test_slowest_partition_determines_the_watermark() -> None:
    partitions = {
        "0": PartitionProgress(5, ReadProgress(newest=100)),
        "1": PartitionProgress(2, ReadProgress(newest=60)),
        "2": PartitionProgress(0, ReadProgress()),
    }
    assert partition_watermarks(partitions, LATENESS) == {"0": 90, "1": 50, "2": None}
    assert watermark(ReadProgress(newest=100), partitions, LATENESS) == 50
    assert watermark(ReadProgress(newest=100, advanced=70), partitions, LATENESS) == 70


def test_progress_never_goes_back() -> None:
    progress = ReadProgress(newest=100, advanced=50)
    assert progress.with_newest(90) == progress
    assert progress.with_newest(None) == progress
    assert progress.with_advanced(40) == progress
    assert progress.with_newest(110).with_advanced(60) == ReadProgress(110, 60)


def test_lowest_watermark_is_none_as_long_as_a_stream_has_none() -> None:
    assert lowest([30, 20]) == 20
    assert lowest([30, None]) is None
    assert lowest([]) is None
