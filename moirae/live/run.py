"""The live process: source → archive → rules → events and alerts.

Spark's micro-batches bring new files; `_take` archives them, then judges them. Between batches `_take_landed` does the
same with what was posted or handed over, and `_tick` looks after what moves without data: idle streams, changed rules,
chunks to close. All hold one lock, so that nothing here ever happens beside something else.
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

from archiver.chunks import ChunkMaintenance, CutPolicy, LifecyclePolicy
from archiver.delta import CONTEXTS, EVENTS
from archiver.ingest import ArchiveWriter, IngestResult, SourceUnit
from archiver.spark import start_session
from archiver.times import duration_to_micros, from_micros, to_micros
from moirae.config import FileSource, KafkaSource, Settings, Stream, stream_schema
from moirae.deployments import RuleFileLoader, RuleRegistry, RuleReloader
from moirae.errors import MoiraeError, Unreachable
from moirae.evaluation import Guard
from moirae.live import streaming_queries as stream
from moirae.live.detection import Detector
from moirae.live.idle import IdleTracker, SourceKey, UnreadFiles
from moirae.live.outbox import open_outboxes
from moirae.live.relations import Relations
from moirae.live.retention import Retention
from moirae.live.sources import files, kafka
from moirae.live.sources import landing as landed
from moirae.live.sources.files import DiscoveredFile
from moirae.live.sources.landing import LandingFolders, select_batches
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
from recall.ledger import pinned_chunks

_LOG = structlog.get_logger()

# Seconds: between two looks at what moves without data; between two signs of life; between two looks for settled
# events to archive; between two looks at what becomes of chunks; between two looks for dead letters to retry; between
# two looks for what need not be known any more, and two steps of that; for a predecessor to end.
(
    _TICK_INTERVAL,
    _HEARTBEAT_INTERVAL,
    _FLUSH_INTERVAL,
    _MAINTENANCE_INTERVAL,
    _RETRY_INTERVAL,
    _RETENTION_INTERVAL,
    _RETENTION_BATCH_INTERVAL,
    _ROLE_TIMEOUT,
) = 0.1, 2.0, 5.0, 1.0, 1.0, 60.0, 0.5, 15.0
# Seconds that files which nobody should need any more stay, beyond the longest history query.
_READER_GRACE = 60.0


def run_live(
    settings: Settings,
    stop: threading.Event,
    drain: bool,
    apply_rules: bool = False,
    parent_pid: int | None = None,
    reload_requested: threading.Event | None = None,
) -> None:
    """Run until `stop` is set, or, to drain, until the sources are read and settled. Raises `MoiraeError`.

    `apply_rules`: take in the workspace's rule files first. `parent`: the process with which this one ends. `reload`:
    set by whoever wants the rule files looked at again.
    """
    watch_parent(parent_pid, stop)
    with suppress(_Stopped):
        live = LiveProcess(settings, stop, drain, reload_requested or threading.Event())
        with record_failure(live.role), suppress(_Stopped):
            if apply_rules:
                live.apply_rules()
            live.run()


class _Stopped(MoiraeError):
    """The process was told to stop while it was starting, or taking a batch; what is not archived comes again."""


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
        kept = settings.chunks.keep
        # What readers may still need stays longer than any of them may take.
        patience = settings.recall.query_timeout.total_seconds() + _READER_GRACE
        self._retention_policy = LifecyclePolicy(
            settings.chunks.recent, None if kept is None else duration_to_micros(kept), patience
        )
        self._maintenance = ChunkMaintenance(root, schemas, patience, (EVENTS, CONTEXTS))
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
        local = settings.recall.engine != "spark"
        self._detector = Detector(
            self._spark, self._archive, connection, relations, admission, guard, local
        )
        self._checkpoint = home / "checkpoints" / "live"
        self._file_sources = {
            n: s.source for n, s in settings.streams.items() if isinstance(s.source, FileSource)
        }
        self._topic_queries: dict[str, StreamingQuery] = {}
        self._landing_folders = LandingFolders(home, settings.streams)
        self._idle_tracker = IdleTracker(
            {name: declared.idle for name, declared in settings.streams.items()}
        )
        self._unread_files = UnreadFiles(self._archive.catalog.finished_units)
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
        """Make the rule files the desired rules. Bad files change nothing: with rules deployed before, these run on."""
        self._end_if_stopped()
        try:
            RuleFileLoader(self._spark, self._settings, self._connection, self._admission).apply()
        except MoiraeError as error:
            if self._drain or not RuleRegistry(self._connection).desired_rules():
                self._spark.stop()
                raise
            _LOG.error("rule files rejected", action="rules_rejected", problems=str(error))

    def run(self) -> None:
        """The loop: until told to stop or, in a drain, until the sources are read."""
        self._end_if_stopped()
        self._detector.reload(self._event_time())
        self._end_if_stopped()
        self._detector.detect_unsettled(self._detector.active_rules)
        self._end_if_stopped()
        if not self._settings.streams:
            raise MoiraeError(f"{self._settings.file} declares no stream: there is nothing to read")
        if not self._drain:
            self._reloader.start()
        queries = self._start_queries()
        with suppress(_Stopped):
            if self._drain:
                self._retry_dead_letters()
                self._ingest_all_landed()
            while self._is_active(queries) and not self._stop.wait(_TICK_INTERVAL):
                with self._lock:
                    self._ingest_landed(
                        select_batches(self._landing_folders.pending_batches())
                        if not self._drain
                        else {}
                    )
                    self._tick()
        if self._stop.is_set():
            with self._lock:  # the batch at hand ends, the next gives up at the fence
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
        """Between two steps of the start, each of which may take seconds. Raises `_Stopped`."""
        if self._stop.is_set():
            self.role.heartbeat("ended")
            raise _Stopped

    def _fence(self) -> None:
        if self._stop.is_set():
            raise _Stopped
        self.role.fence()

    def _start_queries(self) -> list[StreamingQuery]:
        """Spark's part: the sources in which it finds what is new. Where all rows land there are none."""
        globs = {name: source.files for name, source in self._file_sources.items()}
        queries = (
            [
                stream.start_file_query(
                    self._spark, globs, self._checkpoint, self._handle_files, self._drain
                )
            ]
            if globs
            else []
        )
        for name, declared in self._settings.streams.items():
            if isinstance(declared.source, KafkaSource):
                take, checkpoint = (
                    partial(self._handle_records, name, declared),
                    self._checkpoint.parent / "topics" / name,
                )
                options = kafka.reader_options(declared.source)
                query = stream.start_topic_query(
                    self._spark, name, options, checkpoint, take, self._drain
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
        """Queries ended by themselves: in a drain that is their end, otherwise something failed."""
        if self._failure is not None:
            raise self._failure
        for query in queries:
            error = query.exception()
            if error is not None and query in self._topic_queries.values():
                # The broker may be back when the process is: it starts again.
                raise Unreachable(f"reading a topic failed: {str(error).strip().splitlines()[0]}")
            if error is not None:
                raise MoiraeError(
                    f"reading the sources failed: {str(error).strip().splitlines()[0]}\n"
                    f"If the checkpoint is damaged, remove {self._checkpoint} and start again: nothing is read twice."
                )

    def _handle_files(self, appeared: Sequence[DiscoveredFile]) -> None:
        """A micro-batch; what it raises is kept, as Spark would pass on its text only."""
        formats = {name: source.format for name, source in self._file_sources.items()}
        self._handle_units(lambda: files.make_units(appeared, formats, self._settings.file.parent))

    def _handle_records(self, name: str, declared: Stream, records: pa.Table) -> None:
        """A micro-batch of a topic."""
        self._handle_units(
            lambda: kafka.make_units(
                name, declared, records, self._archive.partitions.get(name, {})
            )
        )

    def _handle_units(self, units: Callable[[], Sequence[SourceUnit]]) -> None:
        try:
            with self._lock:
                self._archive_and_detect(units())
        except Exception as error:
            self._failure = error
            raise RuntimeError(type(error).__name__) from None

    def _ingest_all_landed(self) -> None:
        """What has landed until now."""
        waiting = self._landing_folders.pending_batches()
        while taken := select_batches(waiting):
            with self._lock:
                self._ingest_landed(taken)
            waiting = {
                name: batches[len(taken.get(name, ())) :] for name, batches in waiting.items()
            }

    def _ingest_landed(self, taken: Mapping[str, Sequence[LandedBatch]]) -> None:
        """Archive batches of the landing folders; then they need not be there any more."""
        if taken:
            self._archive_and_detect(landed.make_units(taken))
            self._landing_folders.remove(taken)

    def _archive_and_detect(self, units: Sequence[SourceUnit]) -> None:
        self._detect_and_settle(self._archive.ingest(units, to_micros(datetime.now(UTC))))
        self._idle_tracker.record_activity(
            {(unit.stream, unit.partition) for unit in units}, time.monotonic()
        )

    def _retry_dead_letters(self) -> None:
        """Take up dead letters that somebody wants retried."""
        waiting = self._archive.count_pending_retries()
        while waiting:
            self._detect_and_settle(self._archive.retry(to_micros(datetime.now(UTC))))
            before, waiting = waiting, self._archive.count_pending_retries()
            if waiting >= before:
                return

    def _detect_and_settle(self, ingested: IngestResult) -> None:
        """Rows have been archived: judge them, and look after what follows."""
        if self._first_commit_seconds is None:
            self._first_commit_seconds = time.monotonic() - self._started_at
        left = self._detector.detect(ingested.on_time)
        self._detector.settle(include_filters=left)
        self._detector.follow_up()

    def _tick(self) -> None:
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
            self._retention_due_at = now + (
                _RETENTION_BATCH_INTERVAL
                if self._retention.run_once(self._archive)
                else _RETENTION_INTERVAL
            )
        if now - self._flushed_at >= _FLUSH_INTERVAL:
            self._flushed_at = now
            for outbox in self._outboxes.values():
                outbox.flush_if_due(self._archive.chunks, now)
        if now - self._heartbeat_at >= _HEARTBEAT_INTERVAL:
            self._heartbeat_at = now
            self.role.heartbeat(
                "draining" if self._drain else "running", self._first_commit_seconds
            )

    def _advance_idle(self, now: float) -> None:
        """Streams and partitions that are silent do not hold the others back."""
        marks: dict[SourceKey, int | None] = {}
        for name, mark in self._detector.watermarks().items():
            partitions = self._archive.partition_watermarks(name)
            marks |= (
                {(name, part): held for part, held in partitions.items()}
                if partitions
                else {(name, None): mark}
            )
        points = self._idle_tracker.compute_advances(marks, now, self._has_unread)
        streams = {name: point for (name, part), point in points.items() if part is None}
        parts = {(name, part): point for (name, part), point in points.items() if part is not None}
        if streams:
            self._archive.advance(streams)
        if parts:
            self._archive.advance_partitions(parts)

    def _has_unread(self, source: SourceKey) -> bool:
        """Whether a stream has files, batches or records that are not archived yet."""
        name, partition = source
        if self._landing_folders.has_pending(name):
            return True
        declared = self._settings.streams[name].source
        if isinstance(declared, KafkaSource):
            return kafka.has_unread_records(
                self._topic_queries[name].lastProgress, declared.kafka.topic, partition
            )
        if not isinstance(declared, FileSource):
            return False
        base = self._settings.file.parent
        names = {files.unit_name(path, base) for path in files.list_files(declared.files)}
        return self._unread_files.has_unread(name, names, time.monotonic())

    def _event_time(self) -> datetime:
        newest = [p.newest for p in self._archive.progress.values() if p.newest is not None]
        return from_micros(max(newest)) if newest else datetime.now(UTC)

    def _maintain_chunks(self) -> None:
        """Chunks on their way from present to expired."""
        self._archive.record_results(self._maintenance.collect_results())
        marks = list(self._detector.watermarks().values())
        self._maintenance.submit(
            self._archive.update_chunk_states(
                self._retention_policy, self._maintenance.requirements, marks, self._pinned_chunks
            )
        )

    def _pinned_chunks(self) -> set[int]:
        return pinned_chunks(self._connection)

    def _finish_drain(self) -> None:
        """The sources are exhausted: nothing more is waited for, windows close and alerts run out."""
        with self._lock:
            newest = [p.newest for p in self._archive.progress.values() if p.newest is not None]
            if newest:
                end = max(newest) + self._detector.reach() + 1
                self._archive.advance(dict.fromkeys(self._archive.tables, end))
                self._detector.settle_to_end(max(newest) + 1, end)
                self._detector.follow_up_to_end()
            for outbox in self._outboxes.values():
                outbox.flush(self._archive.chunks)
            self._maintain_chunks()
            self._maintenance.wait()
            self._maintain_chunks()
