"""The main loop of the live process: source → archive → rules → events and alerts.

Spark's micro-batches deliver new files and records: `_handle_units` archives and evaluates them.
Between batches `_ingest_landed` does the same for the landing folders, and `_tick` does periodic
work: idle streams, changed rules, chunk states, retention. One lock serializes all of it.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
import structlog
from pyspark.sql.streaming.query import StreamingQuery

import sql
from archiver.chunks import ChunkMaintenance, CutPolicy, LifecyclePolicy
from archiver.delta import CONTEXTS, EVENTS
from archiver.ingest import ArchiveWriter, IngestResult, SourceUnit
from archiver.spark import start_session
from archiver.times import duration_to_micros, from_micros, to_micros
from moirae.config import FileSource, KafkaSource, Settings, Stream, stream_schema
from moirae.deployments import RuleFileLoader, RuleRegistry, RuleReloader
from moirae.errors import MoiraeError, Unreachable
from moirae.evaluation import Guard
from moirae.live.detection import Detector
from moirae.live.idle import IdleTracker, SourceKey, UnreadFiles
from moirae.live.outbox import open_outboxes
from moirae.live.relations import Relations
from moirae.live.retention import Retention
from moirae.live.sources import files, kafka, landing
from moirae.live.sources.files import DiscoveredFile
from moirae.live.sources.landing import LandingFolders, select_batches
from moirae.live.streaming_queries import start_file_query, start_topic_query
from moirae.rules import RuleAdmission
from moirae.runtime import (
    LandedBatch,
    Role,
    check_storage,
    connect_database,
    open_storage,
    record_failure,
    watch_parent,
)

_LOG = structlog.get_logger()

_TICK_INTERVAL = 0.1  # seconds between rounds of periodic work
_HEARTBEAT_INTERVAL = 2.0  # seconds
_FLUSH_INTERVAL = 5.0  # seconds between checks for settled events to archive
_MAINTENANCE_INTERVAL = 1.0  # seconds between updates of chunk states
_RETRY_INTERVAL = 1.0  # seconds between checks for dead letters to retry
_RETENTION_INTERVAL = 60.0  # seconds between retention runs
_RETENTION_BATCH_INTERVAL = 0.5  # seconds between batches of one retention run
_ROLE_TIMEOUT = 15.0  # seconds to wait for the predecessor to release the role
_READER_GRACE = 60.0  # seconds that expired files outlive the longest history query


def run_live(
    settings: Settings,
    stop: threading.Event,
    drain: bool,
    apply_rules: bool = False,
    parent_pid: int | None = None,
    reload_requested: threading.Event | None = None,
) -> None:
    """Run until `stop` is set or, if `drain`, until the sources are read and settled.

    `apply_rules`: apply the rule files of the workspace first. `parent_pid`: end with this process.
    `reload_requested`: set to have the rule files checked again. Raises `MoiraeError`.
    """
    watch_parent(parent_pid, stop)
    with suppress(_Stopped):
        live = LiveProcess(settings, stop, drain, reload_requested or threading.Event())
        with record_failure(live.role), suppress(_Stopped):
            if apply_rules:
                live.apply_rules()
            live.run()


class _Stopped(MoiraeError):
    """A stop was requested during the start or a batch; unarchived input is delivered again."""


class LiveProcess:
    """One run of the live process."""

    def __init__(
        self,
        settings: Settings,
        stop: threading.Event,
        drain: bool,
        reload_requested: threading.Event,
    ) -> None:
        self._started_at = time.monotonic()
        self._settings = settings
        self._stop = stop
        self._drain = drain
        self._lock = threading.Lock()
        connection = self._connection = connect_database(settings, "live")
        self.role = Role(connection, "live", _ROLE_TIMEOUT)
        self._end_if_stopped()
        check_storage(settings)
        root = open_storage(settings)
        schemas = [stream_schema(name, declared) for name, declared in settings.streams.items()]
        policy = CutPolicy(settings.chunks.rows, duration_to_micros(settings.chunks.age))
        self._archive = ArchiveWriter(root, schemas, policy, connection, self._fence)
        self._outboxes = open_outboxes(connection, root)
        keep = settings.chunks.keep
        retention = None if keep is None else duration_to_micros(keep)
        # Files outlive every query that may still read them.
        grace = settings.recall.query_timeout.total_seconds() + _READER_GRACE
        self._retention_policy = LifecyclePolicy(settings.chunks.recent, retention, grace)
        self._maintenance = ChunkMaintenance(root, schemas, grace, (EVENTS, CONTEXTS))
        self._maintained_at = 0.0
        home = Path(settings.home)
        self._spark = start_session(
            "moirae live", settings.spark.master, home / "warehouse", settings.spark.conf
        )
        self._end_if_stopped()
        admission = self._admission = RuleAdmission(self._spark, settings)
        self._reloader = RuleReloader(self._spark, settings, admission, reload_requested)
        self._relations = relations = Relations(connection, settings.relations)
        guard = Guard(self._spark, settings, connection)
        self._detector = Detector(
            spark=self._spark,
            archive=self._archive,
            connection=connection,
            relations=relations,
            admission=admission,
            guard=guard,
            local=settings.recall.engine != "spark",
        )
        self._checkpoint = home / "checkpoints" / "live"
        self._file_sources: dict[str, FileSource] = {}
        for name, declared in settings.streams.items():
            if isinstance(declared.source, FileSource):
                self._file_sources[name] = declared.source
        self._topic_queries: dict[str, StreamingQuery] = {}
        self._landing_folders = LandingFolders(home, settings.streams)
        self._idle_tracker = IdleTracker(
            {name: declared.idle for name, declared in settings.streams.items()}
        )
        self._unread_files = UnreadFiles(sql.UnitGateway(connection).finished_names)
        self._heartbeat_at = 0.0
        self._flushed_at = 0.0
        self._retried_at = 0.0
        self._retention = Retention(
            connection, settings, self._outboxes, self._landing_folders.batch_names
        )
        self._retention_due_at = self._started_at + _RETENTION_INTERVAL
        self._first_commit_seconds: float | None = None
        self._failure: Exception | None = None

    def apply_rules(self) -> None:
        """Make the rule files the desired rules.

        Invalid files change nothing: rules deployed before remain active. Raises `MoiraeError` for
        invalid files in a drain, or if no rules are deployed.
        """
        self._end_if_stopped()
        try:
            RuleFileLoader(self._spark, self._settings, self._connection, self._admission).apply()
        except MoiraeError as error:
            if self._drain or not RuleRegistry(self._connection).desired_rules():
                self._spark.stop()
                raise
            _LOG.error("rule files rejected", action="rules_rejected", problems=str(error))

    def run(self) -> None:
        """Run the main loop until a stop is requested or, in a drain, the sources are read."""
        self._end_if_stopped()
        self._detector.reload(self._event_time())
        self._end_if_stopped()
        self._detector.detect_unsettled(self._detector.active_rules)
        self._end_if_stopped()
        if not self._settings.streams:
            raise MoiraeError(
                f"{self._settings.file}: no streams to read: declare at least one under `streams`"
            )
        if not self._drain:
            self._reloader.start()
        queries = self._start_queries()
        with suppress(_Stopped):
            if self._drain:
                self._retry_dead_letters()
                self._ingest_all_landed()
            while self._is_active(queries) and not self._stop.wait(_TICK_INTERVAL):
                with self._lock:
                    if not self._drain:
                        pending = self._landing_folders.pending_batches()
                        self._ingest_landed(select_batches(pending))
                    self._tick()
        if self._stop.is_set():
            with self._lock:  # wait for the current batch; the next one stops at the fence
                pass
            for query in queries:
                query.stop()
        else:
            self._raise_failure(queries)
            self._finish_drain()
        if not self._drain:
            self._reloader.stop()
        self._relations.stop()
        self.role.heartbeat("ended", self._first_commit_seconds)
        self._maintenance.stop()
        self._spark.stop()

    def _end_if_stopped(self) -> None:
        """Raise `_Stopped` if requested; called between steps of the start, which take seconds."""
        if self._stop.is_set():
            self.role.heartbeat("ended")
            raise _Stopped

    def _fence(self) -> None:
        if self._stop.is_set():
            raise _Stopped
        self.role.fence()

    def _start_queries(self) -> list[StreamingQuery]:
        """Start the Spark queries over files and topics; none if every stream only lands."""
        queries: list[StreamingQuery] = []
        if self._file_sources:
            queries.append(
                start_file_query(
                    self._spark,
                    globs={name: source.files for name, source in self._file_sources.items()},
                    checkpoint=self._checkpoint,
                    handle_files=self._handle_files,
                    drain=self._drain,
                )
            )
        for name, declared in self._settings.streams.items():
            if isinstance(declared.source, KafkaSource):
                query = start_topic_query(
                    self._spark,
                    stream=name,
                    options=kafka.reader_options(declared.source),
                    checkpoint=self._checkpoint.parent / "topics" / name,
                    handle_records=partial(self._handle_records, name, declared),
                    drain=self._drain,
                )
                self._topic_queries[name] = query
                queries.append(query)
        return queries

    def _is_active(self, queries: Sequence[StreamingQuery]) -> bool:
        if self._failure is not None:
            return False
        active = [query.isActive for query in queries]
        return any(active) if self._drain else all(active)

    def _raise_failure(self, queries: Sequence[StreamingQuery]) -> None:
        """Raise the error of a batch or of a query, if any.

        Raises `Unreachable` for a failed topic query, so that the process is restarted: the broker
        may be back by then.
        """
        if self._failure is not None:
            raise self._failure
        for query in queries:
            error = query.exception()
            if error is None:
                continue
            reason = str(error).strip().splitlines()[0]
            if query in self._topic_queries.values():
                raise Unreachable(f"cannot read a Kafka topic: {reason}")
            raise MoiraeError(
                f"cannot read the source files: {reason}\n"
                f"If the checkpoint is damaged, delete {self._checkpoint} and restart: "
                "archived files are not read twice."
            )

    def _handle_files(self, discovered: Sequence[DiscoveredFile]) -> None:
        """Handle a micro-batch of files."""
        formats = {name: source.format for name, source in self._file_sources.items()}
        base = self._settings.file.parent
        self._handle_units(lambda: files.make_units(discovered, formats, base))

    def _handle_records(self, name: str, declared: Stream, records: pa.Table) -> None:
        """Handle a micro-batch of a stream's topic."""

        def make_units() -> list[SourceUnit]:
            progress = self._archive.partitions.get(name, {})
            return kafka.make_units(name, declared, records, progress)

        self._handle_units(make_units)

    def _handle_units(self, make_units: Callable[[], Sequence[SourceUnit]]) -> None:
        """Archive and evaluate units, made under the lock; store an error for the main thread.

        Spark would pass on the text of the error only.
        """
        try:
            with self._lock:
                self._archive_and_detect(make_units())
        except Exception as error:
            self._failure = error
            raise RuntimeError(type(error).__name__) from None

    def _ingest_all_landed(self) -> None:
        """Ingest all batches that are in the landing folders now."""
        pending = self._landing_folders.pending_batches()
        while selected := select_batches(pending):
            with self._lock:
                self._ingest_landed(selected)
            for name, batches in selected.items():
                pending[name] = pending[name][len(batches) :]

    def _ingest_landed(self, batches_by_stream: Mapping[str, Sequence[LandedBatch]]) -> None:
        """Archive and evaluate batches of the landing folders, then delete them."""
        if batches_by_stream:
            self._archive_and_detect(landing.make_units(batches_by_stream))
            self._landing_folders.remove(batches_by_stream)

    def _archive_and_detect(self, units: Sequence[SourceUnit]) -> None:
        self._detect_and_settle(self._archive.ingest(units, to_micros(datetime.now(UTC))))
        sources = {(unit.stream, unit.partition) for unit in units}
        self._idle_tracker.record_activity(sources, time.monotonic())

    def _retry_dead_letters(self) -> None:
        """Retry the dead letters for which it was requested, until their number stops falling."""
        pending_count = self._archive.count_pending_retries()
        while pending_count:
            self._detect_and_settle(self._archive.retry(to_micros(datetime.now(UTC))))
            previous_count = pending_count
            pending_count = self._archive.count_pending_retries()
            if pending_count >= previous_count:
                return

    def _detect_and_settle(self, ingested: IngestResult) -> None:
        """Evaluate archived rows, settle what is due and follow up alerts."""
        if self._first_commit_seconds is None:
            self._first_commit_seconds = time.monotonic() - self._started_at
        has_settleable = self._detector.detect(ingested.on_time)
        self._detector.settle(include_filters=has_settleable)
        self._detector.follow_up()

    def _tick(self) -> None:
        """Do the periodic work that is due."""
        now = time.monotonic()
        self._detector.reload(self._event_time())
        if not self._drain:
            self._advance_idle(now)
            self._detector.settle()
            self._detector.follow_up()
        if now - self._maintained_at >= _MAINTENANCE_INTERVAL:
            self._maintained_at = now
            self._maintain_chunks()
        if now - self._retried_at >= _RETRY_INTERVAL:
            self._retried_at = now
            self._retry_dead_letters()
        if now >= self._retention_due_at:
            has_more = self._retention.run_once(self._archive)
            pause = _RETENTION_BATCH_INTERVAL if has_more else _RETENTION_INTERVAL
            self._retention_due_at = now + pause
        if now - self._flushed_at >= _FLUSH_INTERVAL:
            self._flushed_at = now
            for outbox in self._outboxes.values():
                outbox.flush_if_due(self._archive.chunks, now)
        if now - self._heartbeat_at >= _HEARTBEAT_INTERVAL:
            self._heartbeat_at = now
            state = "draining" if self._drain else "running"
            self.role.heartbeat(state, self._first_commit_seconds)

    def _advance_idle(self, now: float) -> None:
        """Advance the watermarks of idle streams and partitions."""
        watermarks: dict[SourceKey, int | None] = {}
        for name, watermark in self._detector.watermarks().items():
            partitions = self._archive.partition_watermarks(name)
            for partition, partition_watermark in partitions.items():
                watermarks[name, partition] = partition_watermark
            if not partitions:
                watermarks[name, None] = watermark
        advances = self._idle_tracker.compute_advances(watermarks, now, self._has_unread)
        stream_advances: dict[str, int] = {}
        partition_advances: dict[tuple[str, str], int] = {}
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
            progress = self._topic_queries[name].lastProgress
            topic = declared_source.kafka.topic
            return kafka.has_unread_records(progress, topic, partition)
        if not isinstance(declared_source, FileSource):
            return False
        base = self._settings.file.parent
        names = {files.unit_name(path, base) for path in files.list_files(declared_source.files)}
        return self._unread_files.has_unread(name, names, time.monotonic())

    def _event_time(self) -> datetime:
        """The newest event time; the present time while the archive is empty."""
        newest = self._detector.newest_event_time()
        return datetime.now(UTC) if newest is None else from_micros(newest)

    def _maintain_chunks(self) -> None:
        """Record finished maintenance of chunks, update chunk states and submit what is due."""
        self._archive.record_results(self._maintenance.collect_results())
        watermarks = list(self._detector.watermarks().values())
        tasks = self._archive.update_chunk_states(
            self._retention_policy, self._maintenance.requirements, watermarks, self._pinned_chunks
        )
        self._maintenance.submit(tasks)

    def _pinned_chunks(self) -> set[int]:
        return sql.TaskGateway(self._connection).list_pinned_chunks()

    def _finish_drain(self) -> None:
        """Advance time past the end of the input, so that all windows and alerts end."""
        with self._lock:
            newest = self._detector.newest_event_time()
            if newest is not None:
                end = newest + self._detector.reach() + 1
                self._archive.advance(dict.fromkeys(self._archive.tables, end))
                self._detector.settle_to_end(newest + 1, end)
                self._detector.follow_up_to_end()
            for outbox in self._outboxes.values():
                outbox.flush(self._archive.chunks)
            self._maintain_chunks()
            self._maintenance.wait()
            self._maintain_chunks()
