"""How far streams are read while the units of a batch are read one after the other. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from archiver.ingest.classify import latest
from archiver.ingest.closed_keys import ClosedKeys, merge_closed
from archiver.ingest.lateness import LateRule
from archiver.ingest.open_unit import OpenUnit
from archiver.ingest.source_units import SourceUnit
from archiver.ingest.watermarks import PartitionProgress, ReadProgress
from archiver.times import Micros


class RegisteredUnit(NamedTuple):
    """The ledger id of a unit, and the clock at which it was first read, in microseconds."""

    id: int
    clock: Micros | None


@dataclass(frozen=True, kw_only=True)
class StreamProgress:
    """Read progress by stream, which changes with each unit that is read.

    `partitions`, `watermarks`: before the batch, by stream; times in microseconds. `lateness`: by
    stream. `never_late`: streams whose rows are always on time. `closed_keys`: by stream and
    partition (empty: none).
    """

    streams: dict[str, ReadProgress]
    partitions: Mapping[str, Mapping[str, PartitionProgress]]
    watermarks: Mapping[str, Micros | None]
    lateness: Mapping[str, Micros]
    never_late: frozenset[str] = frozenset()
    closed_keys: dict[tuple[str, str], ClosedKeys] = field(default_factory=dict)

    def open_unit(self, unit: SourceUnit, registered: RegisteredUnit) -> OpenUnit:
        """Begin to read a unit: which of its rows are late follows from the units before it."""
        if unit.partition is not None:
            return self._open_partition(unit, unit.partition, registered)
        unit_id, clock = registered
        if unit.stream in self.never_late:
            return OpenUnit(unit, unit_id, LateRule(clock=clock))
        closed_keys = self.closed_keys.get((unit.stream, ""), {})
        if unit.stream in self.partitions:
            bound = self.watermarks[unit.stream]
            return OpenUnit(
                unit,
                unit_id,
                LateRule(clock=clock, before=bound, before_by_rows=bound, closed_keys=closed_keys),
            )
        before = self.streams[unit.stream]
        lateness = self.lateness[unit.stream]
        rule = LateRule(
            clock=clock,
            before=before.watermark(lateness),
            before_by_rows=before.watermark_by_rows(lateness),
            closed_keys=closed_keys,
        )
        return OpenUnit(unit, unit_id, rule)

    def _open_partition(
        self, unit: SourceUnit, partition: str, registered: RegisteredUnit
    ) -> OpenUnit:
        lateness = self.lateness[unit.stream]
        before = self.partitions.get(unit.stream, {}).get(partition)
        if before is None:
            before = PartitionProgress(0, ReadProgress())
        watermark = self.watermarks[unit.stream]
        if before.progress.watermark(lateness) is None and watermark is not None:
            # Event times before the stream's watermark were settled without this partition.
            before = replace(before, progress=before.progress.with_advanced(watermark))
        progress = before.progress
        by_rows = latest(progress.advanced, self.streams[unit.stream].advanced)
        rule = LateRule(
            clock=registered.clock,
            before=latest(by_rows, progress.advanced_ahead),
            before_by_rows=by_rows,
            lateness=lateness,
            newest=progress.newest_not_ahead,
            closed_keys=self.closed_keys.get((unit.stream, partition), {}),
        )
        return OpenUnit(unit, registered.id, rule, partition_before=before)

    def finish_reading(self, open_unit: OpenUnit) -> None:
        """Record that a unit was read: units after it are compared with its newest event time.

        What a unit of a partition closes holds for the partition alone.
        """
        stream = open_unit.unit.stream
        progress = self.streams[stream].with_rows(open_unit.newest, open_unit.newest_not_ahead)
        if open_unit.unit.partition is None:
            progress = progress.with_advanced(open_unit.closed)
        self.streams[stream] = progress
        if open_unit.closed_keys:
            source = (stream, open_unit.unit.partition or "")
            earlier = self.closed_keys.get(source, {})
            self.closed_keys[source] = merge_closed(earlier, open_unit.closed_keys)
