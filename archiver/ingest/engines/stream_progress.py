"""How far streams are read while the units of a batch are read one after the other. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass

from archiver.ingest.classify import late_bound, latest
from archiver.ingest.open_unit import OpenUnit
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.watermarks import PartitionProgress, ReadProgress
from archiver.times import Micros


@dataclass(frozen=True, kw_only=True)
class StreamProgress:
    """Read progress by stream, which changes with each unit that is read.

    `partitions`, `watermarks`: before the batch, by stream; times in microseconds. `lateness`: by
    stream.
    """

    streams: dict[str, ReadProgress]
    partitions: Mapping[str, Mapping[str, PartitionProgress]]
    watermarks: Mapping[str, Micros | None]
    lateness: Mapping[str, Micros]

    def open_unit(self, unit: SourceUnit, unit_id: int) -> OpenUnit:
        """Begin to read a unit: which of its rows are late follows from the units before it."""
        if unit.partition is not None:
            return self._open_partition(unit, unit.partition, unit_id)
        if unit.stream in self.partitions:
            return OpenUnit(unit, unit_id, self.watermarks[unit.stream])
        before = self.streams[unit.stream]
        bound = late_bound(before.newest, self.lateness[unit.stream], before.advanced)
        return OpenUnit(unit, unit_id, bound)

    def _open_partition(self, unit: SourceUnit, partition: str, unit_id: int) -> OpenUnit:
        before = self.partitions.get(unit.stream, {}).get(partition)
        if before is None:
            # Event times before the stream's watermark were settled without this partition.
            before = PartitionProgress(0, ReadProgress(None, self.watermarks[unit.stream]))
        bound = latest(before.progress.advanced, self.streams[unit.stream].advanced)
        return OpenUnit(unit, unit_id, bound, partition_before=before)

    def finish_reading(self, open_unit: OpenUnit) -> None:
        """Record that a unit was read: units after it are compared with its newest event time."""
        stream = open_unit.unit.stream
        self.streams[stream] = self.streams[stream].with_newest(open_unit.newest)
