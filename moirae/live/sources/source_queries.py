"""The Spark queries over files and topics, whose micro-batches are ingested."""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from archiver.ingest import ArchiveWriter, SourceUnit, TopicRecords
from moirae.config import FileFormat, FileSource, KafkaSource, Settings, Stream
from moirae.errors import MoiraeError, Unreachable
from moirae.live.sources import files, kafka
from moirae.live.sources.files import DiscoveredFile
from moirae.live.sources.streaming_queries import start_file_query, start_topic_query


class SourceQueries:
    """The queries of one run.

    `ingest_units` receives the units of each micro-batch, `ingest_records` the records of a topic
    that executors archive; `lock` is held meanwhile.
    """

    def __init__(
        self,
        *,
        spark: SparkSession,
        settings: Settings,
        archive: ArchiveWriter,
        ingest_units: Callable[[Sequence[SourceUnit]], None],
        ingest_records: Callable[[TopicRecords], None],
        lock: threading.Lock,
        drain: bool,
    ) -> None:
        self._spark = spark
        self._settings = settings
        self._archive = archive
        self._ingest_units = ingest_units
        self._ingest_records = ingest_records
        self._lock = lock
        self._drain = drain
        self._checkpoints = Path(settings.home) / "checkpoints"
        self._queries: list[StreamingQuery] = []
        self._topic_queries: dict[str, StreamingQuery] = {}
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
        for name, declared in self._settings.streams.items():
            if isinstance(declared.source, FileSource):
                file_sources[name] = declared.source
        if file_sources:
            formats = {name: source.format for name, source in file_sources.items()}
            query = start_file_query(
                self._spark,
                globs={name: source.files for name, source in file_sources.items()},
                checkpoint=self._file_checkpoint,
                handle_files=partial(self._handle_files, formats),
                drain=self._drain,
            )
            self._queries.append(query)
        for name, declared in self._settings.streams.items():
            if isinstance(declared.source, KafkaSource):
                query = start_topic_query(
                    self._spark,
                    stream=name,
                    options=kafka.reader_options(declared.source),
                    checkpoint=self._checkpoints / "topics" / name,
                    handle_records=partial(self._handle_records, name, declared),
                    drain=self._drain,
                )
                self._topic_queries[name] = query
                self._queries.append(query)

    def stop(self) -> None:
        """Stop the queries."""
        for query in self._queries:
            query.stop()

    def is_active(self) -> bool:
        """Whether no query has failed and, in a drain, any has input left."""
        if self._failure is not None:
            return False
        active = [query.isActive for query in self._queries]
        return any(active) if self._drain else all(active)

    def topic_progress(self, stream: str) -> Mapping[str, Any] | None:
        """The last progress that Spark reported of a stream's topic."""
        progress: Mapping[str, Any] | None = self._topic_queries[stream].lastProgress
        return progress

    def raise_failure(self) -> None:
        """Raise the error of a batch or of a query, if any.

        Raises `Unreachable` for a failed topic query, so that the process is restarted: the broker
        may be back by then.
        """
        if self._failure is not None:
            raise self._failure
        for query in self._queries:
            error = query.exception()
            if error is None:
                continue
            reason = str(error).strip().splitlines()[0]
            if query in self._topic_queries.values():
                raise Unreachable(f"cannot read a Kafka topic: {reason}")
            raise MoiraeError(
                f"cannot read the source files: {reason}\n"
                f"If the checkpoint is damaged, delete {self._file_checkpoint} and restart: "
                "archived files are not read twice."
            )

    @property
    def _file_checkpoint(self) -> Path:
        return self._checkpoints / "live"

    def _handle_files(
        self, formats: dict[str, FileFormat], discovered: Sequence[DiscoveredFile]
    ) -> None:
        """Handle a micro-batch of files."""
        base = self._settings.file.parent
        self._handle_units(lambda: files.make_units(discovered, formats, base))

    def _handle_records(
        self, name: str, declared: Stream, frame: DataFrame, end_offsets: str
    ) -> None:
        """Handle a micro-batch of a stream's topic; executors read a large one."""
        progress = self._archive.partitions.get(name, {})
        estimated_rows = kafka.estimate_records(end_offsets, progress)
        if self._archive.engines.choose_for_rows(estimated_rows) == "spark":
            records = kafka.topic_records(name, declared, frame)
            self._handle(lambda: self._ingest_records(records))
            return
        table = frame.toArrow()

        def make_units() -> list[SourceUnit]:
            return kafka.make_units(name, declared, table, self._archive.partitions.get(name, {}))

        if len(table):
            self._handle_units(make_units)

    def _handle_units(self, make_units: Callable[[], Sequence[SourceUnit]]) -> None:
        """Ingest units, made under the lock."""
        self._handle(lambda: self._ingest_units(make_units()))

    def _handle(self, ingest: Callable[[], None]) -> None:
        """Ingest under the lock; store an error for the main thread.

        Spark would pass on the text of the error only.
        """
        try:
            with self._lock:
                ingest()
        except Exception as error:
            self._failure = error
            raise RuntimeError(type(error).__name__) from None
