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

from archiver.chunk import CutPolicy
from archiver.engine.session import start_session
from archiver.ingest import Archive, Ingested
from archiver.lifecycle import Policy
from archiver.numbered import CONTEXTS, EVENTS
from archiver.roller import Roller
from archiver.times import from_micros, span, to_micros
from archiver.units import Unit
from moirae import database, storage
from moirae.deployments.registry import Registry
from moirae.deployments.reload import Reloading, RuleFiles
from moirae.errors import MoiraeError, Unreachable
from moirae.judging.guard import Guard
from moirae.landing import Landed
from moirae.live import stream
from moirae.live.idle import Idle, Source, UnreadFiles
from moirae.live.judge import Judge
from moirae.live.outbox import outboxes
from moirae.live.relations import Relations
from moirae.live.retention import Retention
from moirae.live.schemas import schema
from moirae.live.sources import files, kafka, landed
from moirae.live.sources.files import Appeared
from moirae.live.sources.landed import Landings, one_round
from moirae.process import Role
from moirae.rules.admission import Admission
from moirae.settings import Settings
from moirae.streams import FileSource, KafkaSource, Stream
from moirae.up import watch_parent
from recall.ledger import pinned_chunks

_LOG = structlog.get_logger()

# Seconds: between two looks at what moves without data; between two signs of life; between two looks for settled
# events to archive; between two looks at what becomes of chunks; between two looks for dead letters to retry; between
# two looks for what need not be known any more, and two steps of that; for a predecessor to end.
_TICK, _BEAT, _FLUSH, _ROLL, _RETRY, _FORGET, _STEP, _PATIENCE = 0.1, 2.0, 5.0, 1.0, 1.0, 60.0, 0.5, 15.0
# Seconds that files which nobody should need any more stay, beyond the longest history query.
_RETENTION = 60.0


def run(
    settings: Settings,
    stop: threading.Event,
    drain: bool,
    apply_rules: bool = False,
    parent: int | None = None,
    reload: threading.Event | None = None,
) -> None:
    """Run until `stop` is set, or, to drain, until the sources are read and settled. Raises `MoiraeError`.

    `apply_rules`: take in the workspace's rule files first. `parent`: the process with which this one ends. `reload`:
    set by whoever wants the rule files looked at again.
    """
    watch_parent(parent, stop)
    live = Live(settings, stop, drain, reload or threading.Event())
    if apply_rules:
        live.apply_rules()
    live.run()


class _Stopped(Exception):
    """The process was told to stop while it was taking a batch; what is not archived comes again."""


class Live:
    """One run of the live process."""

    def __init__(self, settings: Settings, stop: threading.Event, drain: bool, reload: threading.Event) -> None:
        self._began = time.monotonic()
        self._settings = settings
        self._stop = stop
        self._drain = drain
        self._lock = threading.Lock()
        connection = self._connection = database.connect(settings, "live")
        self._role = Role(connection, "live", _PATIENCE)
        storage.check(settings)
        root = storage.root(settings)
        schemas = [schema(name, declared) for name, declared in settings.streams.items()]
        policy = CutPolicy(settings.chunks.rows, span(settings.chunks.age))
        self._archive = Archive(root, schemas, policy, connection, self._fence)
        self._outboxes = outboxes(connection, root)
        kept = settings.chunks.keep
        # What readers may still need stays longer than any of them may take.
        patience = settings.recall.query_timeout.total_seconds() + _RETENTION
        self._policy = Policy(settings.chunks.recent, None if kept is None else span(kept), patience)
        self._roller = Roller(root, schemas, patience, (EVENTS, CONTEXTS))
        self._rolled_at = 0.0
        home = Path(settings.home)
        self._spark = start_session("moirae live", settings.spark.master, home / "warehouse", settings.spark.conf)
        admission = self._admission = Admission(self._spark, settings)
        self._reloading = Reloading(self._spark, settings, admission, reload)
        self._relations = relations = Relations(connection, settings.relations)
        guard = Guard(self._spark, settings, connection)
        local = settings.recall.engine != "spark"
        self._judge = Judge(self._spark, self._archive, connection, relations, admission, guard, local)
        self._checkpoint = home / "checkpoints" / "live"
        self._sources = {n: s.source for n, s in settings.streams.items() if isinstance(s.source, FileSource)}
        self._topics: dict[str, StreamingQuery] = {}
        self._landings = Landings(home, settings.streams)
        self._idle = Idle({name: declared.idle for name, declared in settings.streams.items()})
        self._unread_files = UnreadFiles(self._archive.catalog.done_units)
        self._beat_at = 0.0
        self._flushed_at = 0.0
        self._retried_at = 0.0
        self._retention = Retention(connection, settings, self._outboxes, self._landings.names)
        self._forget_at = self._began + _FORGET
        self._first_commit: float | None = None
        self._failure: Exception | None = None

    def apply_rules(self) -> None:
        """Make the rule files the desired rules. Bad files change nothing: with rules deployed before, these run on."""
        try:
            RuleFiles(self._spark, self._settings, self._connection, self._admission).apply()
        except MoiraeError as error:
            if self._drain or not Registry(self._connection).desired():
                self._spark.stop()
                raise
            _LOG.error("rule files are not applied", action="rules_refused", problems=str(error))

    def run(self) -> None:
        """The loop: until told to stop or, in a drain, until the sources are read."""
        self._judge.reload(self._event_time())
        self._judge.detect_unsettled(self._judge.running)
        if not self._settings.streams:
            raise MoiraeError(f"{self._settings.file} declares no stream: there is nothing to read")
        if not self._drain:
            self._reloading.start()
        queries = self._start()
        with suppress(_Stopped):
            if self._drain:
                self._retry()
                self._take_all_landed()
            while self._goes_on(queries) and not self._stop.wait(_TICK):
                with self._lock:
                    self._take_landed(one_round(self._landings.waiting()) if not self._drain else {})
                    self._tick()
        if self._stop.is_set():
            with self._lock:  # the batch at hand ends, the next gives up at the fence
                pass
            for query in queries:
                query.stop()
        else:
            self._raise(queries)
            self._end_of_time()
        if not self._drain:
            self._reloading.stop()
        self._relations.stop()
        self._role.beat("ended", self._first_commit)
        self._roller.stop()
        self._spark.stop()

    def _fence(self) -> None:
        if self._stop.is_set():
            raise _Stopped
        self._role.fence()

    def _start(self) -> list[StreamingQuery]:
        """Spark's part: the sources in which it finds what is new. Where all rows land there are none."""
        globs = {name: source.files for name, source in self._sources.items()}
        queries = [stream.start(self._spark, globs, self._checkpoint, self._take, self._drain)] if globs else []
        for name, declared in self._settings.streams.items():
            if isinstance(declared.source, KafkaSource):
                take, checkpoint = (
                    partial(self._take_records, name, declared),
                    self._checkpoint.parent / "topics" / name,
                )
                options = kafka.options(declared.source)
                query = stream.start_topic(self._spark, name, options, checkpoint, take, self._drain)
                self._topics[name] = query
                queries.append(query)
        return queries

    def _goes_on(self, queries: Sequence[StreamingQuery]) -> bool:
        if self._failure is not None:
            return False
        active = [query.isActive for query in queries]
        return any(active) if self._drain else all(active)

    def _raise(self, queries: Sequence[StreamingQuery]) -> None:
        """Queries ended by themselves: in a drain that is their end, otherwise something failed."""
        if self._failure is not None:
            raise self._failure
        for query in queries:
            error = query.exception()
            if error is not None and query in self._topics.values():
                # The broker may be back when the process is: it starts again.
                raise Unreachable(f"reading a topic failed: {str(error).strip().splitlines()[0]}")
            if error is not None:
                raise MoiraeError(
                    f"reading the sources failed: {str(error).strip().splitlines()[0]}\n"
                    f"If the checkpoint is damaged, remove {self._checkpoint} and start again: nothing is read twice."
                )

    def _take(self, appeared: Sequence[Appeared]) -> None:
        """A micro-batch; what it raises is kept, as Spark would pass on its text only."""
        formats = {name: source.format for name, source in self._sources.items()}
        self._take_units(lambda: files.units(appeared, formats, self._settings.file.parent))

    def _take_records(self, name: str, declared: Stream, records: pa.Table) -> None:
        """A micro-batch of a topic."""
        self._take_units(lambda: kafka.units(name, declared, records, self._archive.partitions.get(name, {})))

    def _take_units(self, units: Callable[[], Sequence[Unit]]) -> None:
        try:
            with self._lock:
                self._archive_and_judge(units())
        except Exception as error:
            self._failure = error
            raise RuntimeError(type(error).__name__) from None

    def _take_all_landed(self) -> None:
        """What has landed until now."""
        waiting = self._landings.waiting()
        while taken := one_round(waiting):
            with self._lock:
                self._take_landed(taken)
            waiting = {name: batches[len(taken.get(name, ())) :] for name, batches in waiting.items()}

    def _take_landed(self, taken: Mapping[str, Sequence[Landed]]) -> None:
        """Archive batches of the landing folders; then they need not be there any more."""
        if taken:
            self._archive_and_judge(landed.units(taken))
            self._landings.forget(taken)

    def _archive_and_judge(self, units: Sequence[Unit]) -> None:
        self._judge_all(self._archive.ingest(units, to_micros(datetime.now(UTC))))
        self._idle.heard({(unit.stream, unit.partition) for unit in units}, time.monotonic())

    def _retry(self) -> None:
        """Take up dead letters that somebody wants retried."""
        waiting = self._archive.still_to_retry()
        while waiting:
            self._judge_all(self._archive.retry(to_micros(datetime.now(UTC))))
            before, waiting = waiting, self._archive.still_to_retry()
            if waiting >= before:
                return

    def _judge_all(self, ingested: Ingested) -> None:
        """Rows have been archived: judge them, and look after what follows."""
        if self._first_commit is None:
            self._first_commit = time.monotonic() - self._began
        left = self._judge.detect(ingested.on_time)
        self._judge.settle(at_once=left)
        self._judge.follow()

    def _tick(self) -> None:
        now = time.monotonic()
        self._judge.reload(self._event_time())
        if not self._drain:
            self._move_idle(now)
            self._judge.settle()
            self._judge.follow()
        if now - self._rolled_at >= _ROLL:
            self._rolled_at = now
            self._roll()
        if now - self._retried_at >= _RETRY:
            self._retried_at = now
            self._retry()
        if now >= self._forget_at:
            self._forget_at = now + (_STEP if self._retention.step(self._archive) else _FORGET)
        if now - self._flushed_at >= _FLUSH:
            self._flushed_at = now
            for outbox in self._outboxes.values():
                outbox.flush_enough(self._archive.chunks, now)
        if now - self._beat_at >= _BEAT:
            self._beat_at = now
            self._role.beat("draining" if self._drain else "running", self._first_commit)

    def _move_idle(self, now: float) -> None:
        """Streams and partitions that are silent do not hold the others back."""
        marks: dict[Source, int | None] = {}
        for name, mark in self._judge.watermarks().items():
            partitions = self._archive.partition_watermarks(name)
            marks |= {(name, part): held for part, held in partitions.items()} if partitions else {(name, None): mark}
        points = self._idle.advances(marks, now, self._unread)
        streams = {name: point for (name, part), point in points.items() if part is None}
        parts = {(name, part): point for (name, part), point in points.items() if part is not None}
        if streams:
            self._archive.advance(streams)
        if parts:
            self._archive.advance_partitions(parts)

    def _unread(self, source: Source) -> bool:
        """Whether a stream has files, batches or records that are not archived yet."""
        name, partition = source
        if self._landings.unread(name):
            return True
        declared = self._settings.streams[name].source
        if isinstance(declared, KafkaSource):
            return kafka.behind(self._topics[name].lastProgress, declared.kafka.topic, partition)
        if not isinstance(declared, FileSource):
            return False
        base = self._settings.file.parent
        names = {files.name(path, base) for path in files.listed(declared.files)}
        return self._unread_files.any(name, names, time.monotonic())

    def _event_time(self) -> datetime:
        newest = [p.newest for p in self._archive.progress.values() if p.newest is not None]
        return from_micros(max(newest)) if newest else datetime.now(UTC)

    def _roll(self) -> None:
        """Chunks on their way from present to expired."""
        self._archive.done(self._roller.done())
        marks = list(self._judge.watermarks().values())
        self._roller.take(self._archive.roll(self._policy, self._roller.needs, marks, self._pinned))

    def _pinned(self) -> set[int]:
        return pinned_chunks(self._connection)

    def _end_of_time(self) -> None:
        """The sources are exhausted: nothing more is waited for, windows close and alerts run out."""
        with self._lock:
            newest = [p.newest for p in self._archive.progress.values() if p.newest is not None]
            if newest:
                end = max(newest) + self._judge.reach() + 1
                self._archive.advance(dict.fromkeys(self._archive.tables, end))
                self._judge.settle_to_end(max(newest) + 1, end)
                self._judge.follow_to_end()
            for outbox in self._outboxes.values():
                outbox.flush(self._archive.chunks)
            self._roll()
            self._roller.wait()
            self._roll()
