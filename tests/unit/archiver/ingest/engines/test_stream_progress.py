"""Progress of streams while units are read one after the other."""

from archiver.formats import JSONL
from archiver.ingest.engines.stream_progress import RegisteredUnit, StreamProgress
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.watermarks import PartitionProgress, ReadProgress

UNIT = RegisteredUnit(1, clock=None)


def _unit(partition: str | None = None) -> SourceUnit:
    return SourceUnit("s", "u", JSONL, lambda: iter(()), line_numbers=(0, 9), partition=partition)


def _progress(
    newest: int | None, partitions: dict[str, PartitionProgress] | None = None
) -> StreamProgress:
    return StreamProgress(
        streams={"s": ReadProgress(newest, 20, newest)},
        partitions={} if partitions is None else {"s": partitions},
        watermarks={"s": 50},
        lateness={"s": 10},
    )


def test_rows_are_late_after_newer_units() -> None:
    progress = _progress(newest=None)
    bounds = []
    for newest in (100, 40, None, 200, 0):
        opened = progress.open_unit(_unit(), UNIT)
        bounds.append(opened.late_rule.before)
        opened.add_rows(newest, newest, [])
        progress.finish_reading(opened)
    assert bounds == [20, 90, 90, 90, 190]
    assert progress.streams["s"].newest == 200


def test_units_without_partition_of_a_stream_with_partitions_are_bounded_by_its_watermark() -> None:
    partitions = {"0": PartitionProgress(10, ReadProgress(70, None, 70))}
    opened = _progress(newest=100, partitions=partitions).open_unit(_unit(), UNIT)
    assert opened.late_rule.before == 50
    assert opened.partition_before is None


def test_units_of_a_partition_continue_it() -> None:
    partitions = {"0": PartitionProgress(10, ReadProgress(70, 30, 70))}
    progress = _progress(newest=100, partitions=partitions)
    opened = progress.open_unit(_unit("0"), UNIT)
    assert (opened.late_rule.before, opened.partition_before) == (30, partitions["0"])
    assert (opened.late_rule.newest, opened.late_rule.lateness) == (70, 10)
    other = progress.open_unit(_unit("1"), UNIT)
    assert other.partition_before == PartitionProgress(0, ReadProgress(None, 50))
    assert other.late_rule.before == 50, "earlier rows were settled without this partition"


def test_partition_with_rows_ahead_only_is_bounded_by_the_watermark_of_the_stream() -> None:
    partitions = {"0": PartitionProgress(10, ReadProgress(385, None, None))}
    progress = _progress(newest=100, partitions=partitions)
    assert progress.open_unit(_unit("0"), UNIT).late_rule.before == 50


def test_units_after_rows_ahead_are_not_compared_with_them() -> None:
    progress = _progress(newest=100)
    opened = progress.open_unit(_unit(), UNIT)
    opened.add_rows(385, 110, [])
    progress.finish_reading(opened)
    assert progress.open_unit(_unit(), UNIT).late_rule.before == 100
    followed = progress.streams["s"].with_advanced(290, ahead=True)
    progress.streams["s"] = followed
    rule = progress.open_unit(_unit(), UNIT).late_rule
    assert (rule.before, rule.before_by_rows) == (290, 100)
