"""Idle sources of the workspace: their watermarks advance while they are silent.

So do those of sources with rows ahead of the clock, as `ReadProgress.follow_rows_ahead` says.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime

from archiver.ingest import ArchiveWriter, ReadProgress
from archiver.times import Micros, to_micros
from moirae.live.event_time import get_watermarks
from moirae.live.sources.idle import IdleTracker, SourceKey


class IdleSources:
    """Advances the watermarks of idle streams and partitions that have no unread input."""

    def __init__(
        self,
        *,
        archive: ArchiveWriter,
        tracker: IdleTracker,
        has_unread: Callable[[SourceKey], bool],
    ) -> None:
        self._archive = archive
        self._tracker = tracker
        self._has_unread = has_unread

    def advance(self) -> None:
        """Advance the idle sources that are behind."""
        watermarks: dict[SourceKey, Micros | None] = {}
        for name, watermark in get_watermarks(self._archive).items():
            partitions = self._archive.partition_watermarks(name)
            for partition, partition_watermark in partitions.items():
                # A partition of which nothing was read does not hold back its stream.
                if self._archive.partitions[name][partition].progress != ReadProgress():
                    watermarks[SourceKey(name, partition)] = partition_watermark
            if not any(source.stream == name for source in watermarks):
                watermarks[SourceKey(name)] = watermark
        advances = self._tracker.compute_advances(watermarks, time.monotonic(), self._has_unread)
        self._advance(advances)

    def follow_rows_ahead(self, now: datetime) -> None:
        """Advance the sources without unread input that may follow their rows ahead of the clock."""
        advances: dict[SourceKey, Micros] = {}
        monotonic_now = time.monotonic()
        for source, progress in self._list_progress():
            event_time = progress.follow_rows_ahead(
                lateness=self._archive.lateness(source.stream),
                clock=self._archive.clock(source.stream, to_micros(now)),
                is_silent=self._tracker.is_silent(source, monotonic_now),
            )
            if event_time is not None and not self._has_unread(source):
                advances[source] = event_time
        self._advance(advances, ahead=True)

    def _list_progress(self) -> Iterator[tuple[SourceKey, ReadProgress]]:
        for name in self._archive.tables:
            has_partitions = False
            for partition_name, partition in self._archive.partitions.get(name, {}).items():
                if partition.progress != ReadProgress():
                    has_partitions = True
                    yield SourceKey(name, partition_name), partition.progress
            if not has_partitions:
                yield SourceKey(name), self._archive.progress[name]

    def _advance(self, advances: Mapping[SourceKey, Micros], *, ahead: bool = False) -> None:
        """Advance streams and partitions to event times. `ahead`: they follow rows ahead."""
        stream_advances: dict[str, Micros] = {}
        partition_advances: dict[tuple[str, str], Micros] = {}
        for (name, source_partition), event_time in advances.items():
            if source_partition is None:
                stream_advances[name] = event_time
            else:
                partition_advances[name, source_partition] = event_time
        if stream_advances:
            self._archive.advance(stream_advances, ahead=ahead)
        if partition_advances:
            self._archive.advance_partitions(partition_advances, ahead=ahead)
