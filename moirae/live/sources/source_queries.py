"""The Spark queries over files and topics, whose micro-batches are ingested."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from archiver.ingest import ArchiveWriter, SourceUnit
from archiver.ingest.engines import TopicRecords
from moirae.config import FileFormat, FileSource, KafkaSource, Settings, Stream
from moirae.errors import MoiraeError, Unreachable, first_line
from moirae.live.sources import files, kafka
from moirae.live.sources.files import DiscoveredFile
from moirae.live.sources.idle import UnreadFiles
from moirae.live.sources.queries import (
    PausableQuery,
    UnreadFilesCheck,
    UnreadObjects,
    UnreadRecordsCheck,
    start_file_query,
    start_topic_query,
)

# Bytes of files that are ingested while their query is being started; it handles larger ones.
_MAX_DIRECT_BYTES = 1 << 20


class _Paused(MoiraeError):
    """A query is being paused: its batch is refused, and handled after the pause."""


class BatchIngest(Protocol):
    """Archives and evaluates a micro-batch."""

    def ingest_units(self, units: Sequence[SourceUnit]) -> Sequence[SourceUnit]:
        """Of source units. Returns those that are not archived, see `UnitFailures`."""

    def ingest_records(self, records: TopicRecords) -> None:
        """Of the records of a topic, which executors archive."""


class SourceQueries:
    """The queries of one run.

    `ingest` receives the units of each micro-batch, and the records of a topic that executors
    archive; `lock` is held meanwhile. Except in a drain, queries without unread input are paused:
    see `QueryPause`.
    """

    def __init__(
        self,
        *,
        spark: SparkSession,
        settings: Settings,
        archive: ArchiveWriter,
        ingest: BatchIngest,
        unread_files: UnreadFiles,
        lock: threading.Lock,
        drain: bool,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._archive = archive
        self._ingest = ingest
        self._unread_files = unread_files
        self._lock = lock
        self._drain = drain
        self._checkpoints = Path(settings.home) / "checkpoints"
        self._file_query: PausableQuery | None = None
        self._topic_queries: dict[str, PausableQuery] = {}
        self._record_checks: list[UnreadRecordsCheck] = []
        self._unread_objects: UnreadObjects | None = None
        self._failure: Exception | None = None

    def require_streams(self) -> None:
        """Raise `MoiraeError` if the workspace declares no streams."""
        if not self._settings.streams:
            raise MoiraeError(
                f"{self._settings.file}: no streams to read: declare at least one under `streams`"
            )

    def start(self) -> None:
        """Start the queries; none if every stream only lands."""
        file_sources: dict[str, FileSource] = {}
        object_sources: dict[str, FileSource] = {}
        for name, declared in self._settings.streams.items():
            if isinstance(declared.source, FileSource):
                is_object = declared.source.is_in_object_storage
                (object_sources if is_object else file_sources)[name] = declared.source
        if object_sources:
            self._unread_objects = UnreadObjects(object_sources, self._unread_files)
        if file_sources:
            self._file_query = self._make_file_query(file_sources)
        for name, declared in self._settings.streams.items():
            if isinstance(declared.source, KafkaSource):
                self._topic_queries[name] = self._make_topic_query(name, declared, declared.source)
        for query in self._queries:
            query.start()

    def _make_file_query(self, sources: Mapping[str, FileSource]) -> PausableQuery:
        formats = {name: source.format for name, source in sources.items()}
        start = partial(
            start_file_query,
            self._spark,
            globs={name: source.files for name, source in sources.items()},
            checkpoint=self._file_checkpoint,
            handle_files=partial(self._handle_files, formats),
            drain=self._drain,
        )
        checks: list[UnreadFilesCheck] = []
        for name, source in sources.items():
            check = UnreadFilesCheck(
                name, source.files, self._base, partial(self._find_unread_names, name)
            )
            checks.append(check)
        return PausableQuery(
            lock=self._lock,
            start_query=start,
            has_unread=lambda: any(check.has_unread() for check in checks),
            ingest_unread=partial(self._ingest_unread_files, formats, checks),
        )

    def _make_topic_query(self, name: str, declared: Stream, source: KafkaSource) -> PausableQuery:
        checkpoint = self._checkpoints / "topics" / name
        start = partial(
            start_topic_query,
            self._spark,
            stream=name,
            options=kafka.reader_options(source),
            checkpoint=checkpoint,
            handle_records=partial(self._handle_records, name, declared),
            drain=self._drain,
        )
        check = UnreadRecordsCheck(self._spark, source, checkpoint)
        self._record_checks.append(check)
        return PausableQuery(lock=self._lock, start_query=start, has_unread=check)

    def _find_unread_names(self, stream: str, names: set[str]) -> set[str]:
        return self._unread_files.find_unread(stream, names, time.monotonic())

    @property
    def _queries(self) -> list[PausableQuery]:
        queries = list(self._topic_queries.values())
        if self._file_query is not None:
            queries.insert(0, self._file_query)
        return queries

    def update(self) -> None:
        """Pause queries without unread input, and continue those whose input is back.

        Ingest new files of object storage. The lock is not held. Raises `Unreachable`.
        """
        for query in self._queries:
            query.update()
        if self._unread_objects is not None:
            self._ingest_objects(self._unread_objects.find())

    def ingest_all_objects(self) -> None:
        """Ingest all files that are in object storage now. The lock is not held.

        Raises `Unreachable`.
        """
        if self._unread_objects is not None:
            self._unread_objects.ingest_all(self._ingest_objects)

    def has_unread_objects(self, stream: str) -> bool:
        """Whether a stream has files in object storage that are known and not archived."""
        return self._unread_objects is not None and self._unread_objects.has_unread(stream)

    def _ingest_objects(self, discovered: Sequence[DiscoveredFile]) -> None:
        """Ingest files of object storage, if any."""
        if not discovered or self._unread_objects is None:
            return
        formats: dict[str, FileFormat] = {}
        for name, declared in self._settings.streams.items():
            if isinstance(declared.source, FileSource):
                formats[name] = declared.source.format
        with self._lock:
            self._ingest.ingest_units(files.make_units(discovered, formats, self._base))
        self._unread_objects.record_archived(discovered)

    def stop(self) -> None:
        """Stop the queries."""
        for query in self._queries:
            query.stop()
        for check in self._record_checks:
            check.close()

    @property
    def has_failed(self) -> bool:
        """Whether a batch has failed."""
        return self._failure is not None

    def is_active(self) -> bool:
        """Whether no query has failed and, in a drain, any has input left."""
        if self._failure is not None:
            return False
        if self._drain:
            return any(query.is_running() for query in self._queries)
        return all(query.is_paused or query.is_running() for query in self._queries)

    def has_unread_records(self, stream: str, topic: str, partition: str | None) -> bool:
        """Whether a partition may have records that are in no batch yet; see `kafka`."""
        query = self._topic_queries[stream]
        if query.is_paused:
            return False
        return kafka.has_unread_records(query.last_progress(), topic, partition)

    def raise_failure(self) -> None:
        """Raise the error of a batch or of a query, if any.

        Raises `Unreachable` for a failed topic query, so that the process is restarted: the broker
        may be back by then.
        """
        if self._failure is not None:
            raise self._failure
        error = None if self._file_query is None else self._file_query.failure()
        if error is not None:
            reason = first_line(error)
            raise MoiraeError(
                f"cannot read the source files: {reason}\n"
                f"If the checkpoint is damaged, delete {self._file_checkpoint} and restart: "
                "archived files are not read twice."
            )
        for stream, query in self._topic_queries.items():
            error = query.failure()
            if error is not None:
                reason = first_line(error)
                raise Unreachable(f"stream {stream}: cannot read its Kafka topic: {reason}")

    @property
    def _file_checkpoint(self) -> Path:
        return self._checkpoints / "live"

    @property
    def _base(self) -> Path:
        """The folder that names of files are relative to."""
        return self._settings.file.parent

    def _handle_files(
        self, formats: dict[str, FileFormat], discovered: Sequence[DiscoveredFile]
    ) -> None:
        """Handle a micro-batch of files."""
        assert self._file_query is not None
        self._handle_units(
            self._file_query, lambda: files.make_units(discovered, formats, self._base)
        )

    def _ingest_unread_files(
        self, formats: dict[str, FileFormat], checks: Sequence[UnreadFilesCheck]
    ) -> None:
        """Ingest the unread files, unless they are large; the lock is held.

        Their query gets them as well, and finds that they are archived.
        """
        discovered = [file for check in checks for file in check.find()]
        if not discovered or sum(file.size for file in discovered) > _MAX_DIRECT_BYTES:
            return
        units = files.make_units(discovered, formats, self._base)
        self._ingest.ingest_units(units)
        for stream, stream_units in groupby(units, key=attrgetter("stream")):
            self._unread_files.record_archived(stream, {unit.name for unit in stream_units})

    def _handle_records(
        self, name: str, declared: Stream, frame: DataFrame, end_offsets: str
    ) -> None:
        """Handle a micro-batch of a stream's topic; executors read a large one."""
        progress = self._archive.partitions.get(name, {})
        estimated_rows = kafka.estimate_records(end_offsets, progress)
        if self._archive.engines.choose_for_rows(estimated_rows) == "spark":
            records = kafka.topic_records(name, declared, frame)
            self._handle(self._topic_queries[name], lambda: self._ingest.ingest_records(records))
            return
        table = frame.toArrow()

        def make_units() -> list[SourceUnit]:
            return kafka.make_units(name, declared, table, self._archive.partitions.get(name, {}))

        self._handle_units(self._topic_queries[name], make_units)

    def _handle_units(
        self, query: PausableQuery, make_units: Callable[[], Sequence[SourceUnit]]
    ) -> None:
        """Ingest units, made under the lock."""
        self._handle(query, lambda: self._ingest.ingest_units(make_units()))

    def _handle(self, query: PausableQuery, ingest: Callable[[], object]) -> None:
        """Ingest a micro-batch under the lock; store an error for the main thread.

        Spark would pass on the text of the error only.
        """
        try:
            with self._lock:
                if query.is_paused:
                    raise _Paused
                query.record_batch()
                ingest()
                query.record_batch()
        except _Paused:
            raise
        except Exception as error:
            self._failure = error
            raise RuntimeError(type(error).__name__) from None
