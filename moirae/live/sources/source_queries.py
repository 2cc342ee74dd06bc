"""The Spark queries over files and topics, whose micro-batches are ingested."""

import threading
from collections.abc import Callable, Sequence, Set
from functools import partial
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from archiver.ingest import ArchiveWriter, SourceUnit
from archiver.ingest.engines import TopicRecords
from moirae.config import KafkaSource, Settings, Stream
from moirae.errors import MoiraeError, Unreachable, first_line
from moirae.live.sources import kafka
from moirae.live.sources.file_input import FileInput, UnitIngest
from moirae.live.sources.queries import PausableQuery, UnreadRecordsCheck, start_topic_query


class _Paused(MoiraeError):
    """A query is being paused: its batch is refused, and handled after the pause."""


class BatchIngest(UnitIngest, Protocol):
    """Archives and evaluates a micro-batch."""

    def ingest_records(self, records: TopicRecords) -> None:
        """Of the records of a topic, which executors archive."""


class SourceQueries:
    """The queries of one run: one over all files, and one for each topic.

    `ingest` receives the units of each micro-batch, and the records of a topic that executors
    archive; `lock` is held meanwhile. Except in a drain, topic queries without unread input are
    paused: see `QueryPause`. `find_archived`: see `FileInput`.
    """

    def __init__(
        self,
        *,
        spark: SparkSession,
        settings: Settings,
        archive: ArchiveWriter,
        ingest: BatchIngest,
        find_archived: Callable[[str, Set[str]], Set[str]],
        lock: threading.Lock,
        drain: bool,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._archive = archive
        self._ingest = ingest
        self._lock = lock
        self._drain = drain
        self._checkpoints = Path(settings.home) / "checkpoints"
        self._files = FileInput(
            spark=spark,
            settings=settings,
            ingest=ingest,
            find_archived=find_archived,
            is_waiting=archive.is_waiting,
            lock=lock,
            drain=drain,
        )
        self._topic_queries: dict[str, PausableQuery] = {}
        self._record_checks: list[UnreadRecordsCheck] = []
        self._failure: Exception | None = None

    def require_streams(self) -> None:
        """Raise `MoiraeError` if the workspace declares no streams."""
        if not self._settings.streams:
            raise MoiraeError(
                f"{self._settings.file}: no streams to read: declare at least one under `streams`"
            )

    def start(self) -> None:
        """Start the queries; none if every stream only lands. Raises `MoiraeError`."""
        self._files.start()
        self._start_topic_queries()

    def _start_topic_queries(self) -> None:
        """Start the queries of topics whose streams do not wait."""
        for name, declared in self._settings.streams.items():
            if name in self._topic_queries or self._archive.is_waiting(name):
                continue
            if isinstance(declared.source, KafkaSource):
                query = self._make_topic_query(name, declared, declared.source)
                query.start()
                self._topic_queries[name] = query

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

    def update(self) -> None:
        """Start a batch of new files; pause topic queries without unread input, and continue those
        whose input is back. The lock is not held. Raises `Unreachable`.
        """
        self._files.update()
        self._start_topic_queries()
        if not self._drain:
            for query in self._topic_queries.values():
                query.update()

    def oldest_unread_file(self, stream: str) -> float | None:
        """When the oldest unread file of a stream arrived; see `FileInput.oldest_unread`."""
        return self._files.oldest_unread(stream)

    def has_unread_files(self, stream: str) -> bool:
        """Whether a stream has discovered files that are not archived. The lock is held."""
        return self._files.has_unread(stream)

    def stop(self) -> None:
        """Stop the queries."""
        self._files.stop()
        for query in self._topic_queries.values():
            query.stop()
        for check in self._record_checks:
            check.close()

    @property
    def has_failed(self) -> bool:
        """Whether a batch has failed."""
        return self._failure is not None or self._files.has_failed

    def is_active(self) -> bool:
        """Whether no query has failed and, in a drain, any has input left."""
        if self._failure is not None:
            return False
        queries = self._topic_queries.values()
        if self._drain:
            return self._files.is_active() or any(query.is_running() for query in queries)
        return self._files.is_active() and all(
            query.is_paused or query.is_running() for query in queries
        )

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
        self._files.raise_failure()
        for stream, query in self._topic_queries.items():
            error = query.failure()
            if error is not None:
                reason = first_line(error)
                raise Unreachable(f"stream {stream}: cannot read its Kafka topic: {reason}")

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
