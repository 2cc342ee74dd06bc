"""Progress of streams while units are read one after the other."""

from archiver.ingest.engines.stream_progress import StreamProgress
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.watermarks import PartitionProgress, ReadProgress


def _unit(partition: str | None = None) -> SourceUnit:
    return SourceUnit("s", "u", "jsonl", lambda: iter(()), line_numbers=(0, 9), partition=partition)


def _progress(
    newest: int | None, partitions: dict[str, PartitionProgress] | None = None
) -> StreamProgress:
    return StreamProgress(
        streams={"s": ReadProgress(newest, advanced=20)},
        partitions={} if partitions is None else {"s": partitions},
        watermarks={"s": 50},
        lateness={"s": 10},
    )


def test_rows_are_late_after_newer_units() -> None:
    progress = _progress(newest=None)
    bounds = []
    for newest in (100, 40, None, 200, 0):
        opened = progress.open_unit(_unit(), 1)
        bounds.append(opened.late_before)
        opened.newest = newest
        progress.finish_reading(opened)
    assert bounds == [20, 90, 90, 90, 190]
    assert progress.streams["s"].newest == 200


def test_units_without_partition_of_a_stream_with_partitions_are_bounded_by_its_watermark() -> None:
    partitions = {"0": PartitionProgress(10, ReadProgress(70, None))}
    opened = _progress(newest=100, partitions=partitions).open_unit(_unit(), 1)
    assert opened.late_before == 50
    assert opened.partition_before is None


def test_units_of_a_partition_continue_it() -> None:
    partitions = {"0": PartitionProgress(10, ReadProgress(70, 30))}
    progress = _progress(newest=100, partitions=partitions)
    opened = progress.open_unit(_unit("0"), 1)
    assert (opened.late_before, opened.partition_before) == (30, partitions["0"])
    other = progress.open_unit(_unit("1"), 2)
    assert other.partition_before == PartitionProgress(0, ReadProgress(None, 50))
    assert other.late_before == 50, "earlier rows were settled without this partition"
