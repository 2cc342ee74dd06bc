"""Idle sources of the workspace: their watermarks advance while they are silent."""

import time

from archiver.ingest import ArchiveWriter
from archiver.times import Micros
from moirae.config import KafkaSource, Settings
from moirae.live.event_time import get_watermarks
from moirae.live.sources.idle import IdleTracker, SourceKey
from moirae.live.sources.landing import LandingFolders
from moirae.live.sources.source_queries import SourceQueries


class IdleSources:
    """Advances the watermarks of idle streams and partitions that have no unread input."""

    def __init__(
        self,
        *,
        settings: Settings,
        archive: ArchiveWriter,
        tracker: IdleTracker,
        landing_folders: LandingFolders,
        queries: SourceQueries,
    ) -> None:
        self._settings = settings
        self._archive = archive
        self._tracker = tracker
        self._landing_folders = landing_folders
        self._queries = queries

    def advance(self) -> None:
        """Advance the idle sources that are behind."""
        watermarks: dict[SourceKey, Micros | None] = {}
        for name, watermark in get_watermarks(self._archive).items():
            partitions = self._archive.partition_watermarks(name)
            for partition, partition_watermark in partitions.items():
                watermarks[SourceKey(name, partition)] = partition_watermark
            if not partitions:
                watermarks[SourceKey(name)] = watermark
        advances = self._tracker.compute_advances(watermarks, time.monotonic(), self._has_unread)
        stream_advances: dict[str, Micros] = {}
        partition_advances: dict[tuple[str, str], Micros] = {}
        for (name, source_partition), event_time in advances.items():
            if source_partition is None:
                stream_advances[name] = event_time
            else:
                partition_advances[name, source_partition] = event_time
        if stream_advances:
            self._archive.advance(stream_advances)
        if partition_advances:
            self._archive.advance_partitions(partition_advances)

    def _has_unread(self, source: SourceKey) -> bool:
        """Whether a stream or partition has input that is not archived yet."""
        name, partition = source
        if self._landing_folders.has_pending(name):
            return True
        declared_source = self._settings.streams[name].source
        if isinstance(declared_source, KafkaSource):
            topic = declared_source.kafka.topic
            return self._queries.has_unread_records(name, topic, partition)
        return self._queries.has_unread_files(name)
