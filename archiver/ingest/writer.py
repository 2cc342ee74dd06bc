"""Append source units to the archive: each record once, in its chunk, counted in the ledger.

A unit is read in slices. The rows of a slice are classified, divided into chunks, and appended with
one commit per stream. When all slices of a batch are appended, one transaction updates the ledger.
After a crash in between, the next process reads the unit again; rows appended before are recognised
by unit and line.

The order of writes is: ends of chunks before rows after them, rows before the ledger counts them.
"""

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

import pyarrow as pa

import sql
from archiver.chunks import (
    COMPACT,
    Chunk,
    CutPolicy,
    LifecyclePolicy,
    MaintenanceResult,
    MaintenanceTask,
    Requirement,
    StateChange,
    plan_steps,
)
from archiver.delta import ErasedRow, ErasedRows, StreamSchema, StreamTable
from archiver.ingest.chunk_cutter import ChunkCutter
from archiver.ingest.classify import latest
from archiver.ingest.closed_keys import ClosedKeys, merge_closed
from archiver.ingest.dead_letters import count_letters, retry_rule, retry_unit
from archiver.ingest.decoding import redact_refused
from archiver.ingest.engines import (
    ArchivedRows,
    EngineName,
    IngestBatch,
    IngestEngine,
    IngestEngines,
    LocalIngest,
    StreamProgress,
    TopicRecords,
    decode_unit,
)
from archiver.ingest.ingest_result import IngestResult
from archiver.ingest.interrupted_batches import InterruptedBatches
from archiver.ingest.keys_ahead import merge_keys_ahead
from archiver.ingest.ledger import Catalog, ClosedKeyLedger, LedgerCompaction, TopicLedger
from archiver.ingest.open_unit import OpenUnit
from archiver.ingest.source_units import BATCH_RECORDS, SourceUnit
from archiver.ingest.unit_registry import UnitRegistry
from archiver.ingest.watermarks import (
    PartitionProgress,
    ReadProgress,
    lowest,
    partition_watermarks,
    watermark,
)
from archiver.read import RecentRows
from archiver.storage import StorageRoot
from archiver.times import Micros, duration_to_micros
from sql.archive import (
    ChunkGateway,
    DeadLetterGateway,
    ErasureGateway,
    MarkedDeadLetterRow,
)

_RETRY_BATCH = 10_000  # dead letters retried at once
_MAX_RECENT_BYTES = 64 << 20  # bytes of recently archived rows in memory per stream

# Returns the ids of the chunks that running recalls have yet to read.
ChunksInUse = Callable[[], Collection[int]]


class _RetriedUnit(NamedTuple):
    """A unit with dead letters that are decoded again."""

    open_unit: OpenUnit
    letters: Sequence[MarkedDeadLetterRow]


class ArchiveWriter:
    """The only writer of a workspace's stream tables.

    `fence` is called before each write, and raises when another process has taken over.
    """

    def __init__(
        self,
        root: StorageRoot,
        schemas: Iterable[StreamSchema],
        policy: CutPolicy,
        connection: sql.Connection,
        fence: Callable[[], None],
    ) -> None:
        self.root = root
        self._connection = connection
        self.fence = fence
        self._batch = 0
        self.catalog = Catalog(connection)
        self.topics = TopicLedger(connection)
        self.tables: dict[str, StreamTable] = {}
        self.recent_rows: dict[str, RecentRows] = {}
        for schema in schemas:
            table = StreamTable(root, schema)
            if not table.is_rewriting:
                table.declare()
            self.tables[schema.name] = table
            self.recent_rows[schema.name] = _create_recent_rows(table)
        with connection.transaction():
            for stream in self.tables:
                self.catalog.insert_stream(stream)
            chunks = self.catalog.chunks()
            self.progress: dict[str, ReadProgress] = self.catalog.stream_progress()
            self.topics.load()
            self._registry = UnitRegistry(connection, self.catalog.stream_clocks())
            self._keys_ahead = self.catalog.keys_ahead()
            key_columns = {name: table.schema.key for name, table in self.tables.items()}
            self._closed_keys = ClosedKeyLedger(connection, key_columns)
        self._load_erased(connection)
        self._cutter = ChunkCutter(connection, self.catalog, policy, self.tables.values(), chunks)
        self.engines = IngestEngines(LocalIngest(self.tables))
        self._interrupted = InterruptedBatches(connection, self.tables)
        self._interrupted.count()

    def _load_erased(self, connection: sql.Connection) -> None:
        """Learn which rows were erased. An erasure ends this process, so that the next knows more."""
        gateway = ErasureGateway(connection)
        key = gateway.get_key()
        for stream, table in self.tables.items():
            rows = gateway.list_rows(stream)
            table.set_erased(
                ErasedRows.of(
                    key, [ErasedRow(row.hash, row.unit, row.line, row.hour) for row in rows]
                )
            )

    @property
    def _dead_letter_gateway(self) -> DeadLetterGateway:
        return DeadLetterGateway(self._connection)

    @property
    def _chunk_gateway(self) -> ChunkGateway:
        return ChunkGateway(self._connection)

    @property
    def partitions(self) -> Mapping[str, Mapping[str, PartitionProgress]]:
        """How far the partitions of the topics that streams read have been read, by stream."""
        return self.topics.partitions

    @property
    def chunks(self) -> Sequence[Chunk]:
        """All chunks, oldest first."""
        return self._cutter.chunks

    def is_waiting(self, stream: str) -> bool:
        """Whether nothing can be appended to a stream until its files are rewritten."""
        return self.tables[stream].is_rewriting

    @property
    def _never_late(self) -> frozenset[str]:
        names = (name for name, table in self.tables.items() if table.schema.is_never_late)
        return frozenset(names)

    @property
    def _writable_streams(self) -> list[str]:
        return [stream for stream in self.tables if not self.is_waiting(stream)]

    def watermark(self, stream: str) -> Micros | None:
        """The watermark of a stream in microseconds: rows before it are complete or late.

        None: nothing was read.
        """
        return watermark(
            self.progress[stream], self.partitions.get(stream, {}), self.lateness(stream)
        )

    def partition_watermarks(self, stream: str) -> dict[str, Micros | None]:
        """The watermark of each partition of a stream, by name; None: nothing of it was read."""
        return partition_watermarks(self.partitions.get(stream, {}), self.lateness(stream))

    def current_event_time(self, stream: str) -> Micros | None:
        """The newest event time of a stream that is not ahead of the clock; None: nothing was read.

        It is not before a watermark that followed rows.
        """
        progress = self.progress[stream]
        partitions = self.partitions.get(stream, {}).values()
        times = [progress.newest_not_ahead, progress.advanced_ahead]
        times += [partition.progress.advanced_ahead for partition in partitions]
        clock = self._registry.newest_clock(stream)
        if progress.newest is not None and clock is not None:
            times.append(min(progress.newest, clock))
        return latest(*times)

    def clock(self, stream: str, now: Micros) -> Micros:
        """The clock of a unit of a stream that is first read now: it never goes back."""
        return self._registry.clock(stream, now)

    def lateness(self, stream: str) -> Micros:
        """How far rows of a stream may lag behind newer ones without being late."""
        return duration_to_micros(self.tables[stream].schema.lateness)

    def ingest(self, units: Iterable[SourceUnit], now: Micros) -> IngestResult:
        """Archive units, those of one stream in the given order. Finished units are skipped.

        `now`: the current time in microseconds; rows too far after it are quarantined.
        """
        units = list(units)
        engine_name = self.engines.choose(units)
        engine: IngestEngine = self.engines.local
        if engine_name == "spark":
            engine = self.engines.require_executors()
        return self._run_batch(engine_name, partial(engine.archive, units), now)

    def ingest_records(self, records: TopicRecords, now: int) -> IngestResult:
        """Like `ingest`, for records of a topic that executors have read."""
        executors = self.engines.require_executors()
        return self._run_batch("spark", partial(executors.archive_records, records), now)

    def _run_batch(
        self,
        engine_name: EngineName,
        archive: Callable[[IngestBatch], dict[str, ArchivedRows]],
        now: int,
    ) -> IngestResult:
        started_at = time.monotonic()
        batch = self._start_batch(now)
        archived = archive(batch)
        self.engines.local.count_archived_lines(batch.open_units, batch)
        self._finish_units(batch)
        self.engines.record(engine_name, batch, time.monotonic() - started_at)
        self._update_memory(archived)
        return IngestResult.from_units(archived, batch.open_units)

    def _start_batch(self, now: int) -> IngestBatch:
        self._interrupted.begin_batch()
        self._batch += 1
        return IngestBatch(
            number=self._batch,
            now=now,
            tables=self.tables,
            cutter=self._cutter,
            progress=StreamProgress(
                streams=dict(self.progress),
                partitions=self.partitions,
                watermarks={stream: self.watermark(stream) for stream in self.tables},
                lateness={stream: self.lateness(stream) for stream in self.tables},
                never_late=self._never_late,
                closed_keys=dict(self._closed_keys.by_source),
            ),
            register_units=partial(self._registry.register, now=now),
            partition_clocks=self._registry.partition_clocks,
            clock=partial(self._registry.clock, now=now),
            fence=self.fence,
        )

    def _update_memory(self, archived: Mapping[str, ArchivedRows]) -> None:
        """Include what was archived in the rows and identities in memory, or drop these."""
        for stream, rows in archived.items():
            if rows.on_time is not None:
                # Old rows are evicted part by part.
                for start in range(0, len(rows.on_time), BATCH_RECORDS):
                    self.recent_rows[stream].add(rows.on_time.slice(start, BATCH_RECORDS))
                continue
            self.engines.local.forget(stream, {file.chunk for file in rows.files})
            if rows.newest is not None:
                self.recent_rows[stream].skip(rows.newest)

    def _finish_units(self, batch: IngestBatch) -> None:
        """Record in the ledger that the units are archived, in one transaction."""
        with self.fenced_transaction():
            self.catalog.finish_units(unit.finished_row() for unit in batch.open_units)
            self._raise_newest(batch.open_units)
            for open_unit in batch.open_units:
                self._insert_dead_letters(open_unit)
                unit = open_unit.unit
                if unit.version is not None and unit.version.readings > 1:
                    self.catalog.put_version(unit.stream, unit.version)
                if unit.partition is not None:
                    self.topics.put(unit.stream, unit.partition, open_unit.partition_after())
            self._record_late_rows(batch)
            self._record_keys_ahead(batch.open_units)
            closed_keys = self._record_closed_keys(batch, batch.open_units)
            self._interrupted.record_appends()
        self._interrupted.end_batch()
        self.progress = batch.progress.streams
        self._closed_keys.by_source = closed_keys

    def _insert_dead_letters(self, open_unit: OpenUnit) -> None:
        if not open_unit.refused_lines:
            return
        schema = self.tables[open_unit.unit.stream].schema
        reading = open_unit.unit.reading(open_unit.late_rule.clock, open_unit.fields)
        lines = redact_refused(schema, reading, open_unit.refused_lines)
        self._dead_letter_gateway.insert(open_unit.id, lines)

    def _record_late_rows(self, batch: IngestBatch) -> None:
        if batch.chunks_with_late_rows:
            self._chunk_gateway.raise_versions(batch.chunks_with_late_rows)

    def _raise_newest(self, open_units: Iterable[OpenUnit]) -> None:
        by_stream: dict[str, list[OpenUnit]] = {}
        for open_unit in open_units:
            by_stream.setdefault(open_unit.unit.stream, []).append(open_unit)
        for stream, units in by_stream.items():
            newest = latest(*(unit.newest for unit in units))
            self.catalog.raise_newest(
                stream, newest, latest(*(unit.newest_not_ahead for unit in units))
            )
            closed = latest(*(unit.closed for unit in units if unit.unit.partition is None))
            if closed is not None:
                self.catalog.advance(stream, closed, ahead=False)

    def _record_keys_ahead(self, open_units: Iterable[OpenUnit]) -> None:
        for open_unit in open_units:
            if open_unit.keys_ahead:
                stream = open_unit.unit.stream
                keys = merge_keys_ahead(self._keys_ahead.get(stream, ()), open_unit.keys_ahead)
                self.catalog.put_keys_ahead(stream, keys)
                self._keys_ahead[stream] = keys

    def _record_closed_keys(
        self, batch: IngestBatch, open_units: Iterable[OpenUnit]
    ) -> dict[tuple[str, str], ClosedKeys]:
        """Store which keys the units have closed; returns all whose time is not past."""
        for open_unit in open_units:
            if open_unit.closed_keys:
                unit = open_unit.unit
                self._closed_keys.put((unit.stream, unit.partition or ""), open_unit.closed_keys)
        remaining: dict[tuple[str, str], ClosedKeys] = {}
        for source, closed in batch.progress.closed_keys.items():
            stream, partition = source
            lateness = self.lateness(stream)
            partitions = self.partitions.get(stream, {})
            if partition in partitions:
                mark = partitions[partition].progress.watermark(lateness)
            else:
                mark = watermark(batch.progress.streams[stream], partitions, lateness)
            remaining[source] = self._closed_keys.delete_passed(source, closed, mark)
        return {source: closed for source, closed in remaining.items() if closed}

    @property
    def closed_keys(self) -> Mapping[str, ClosedKeys]:
        """By stream, the keys for which event time is closed that its watermark has not reached."""
        by_stream: dict[str, ClosedKeys] = {}
        for (stream, _), closed in self._closed_keys.by_source.items():
            by_stream[stream] = merge_closed(by_stream.get(stream, {}), closed)
        return by_stream

    @contextmanager
    def fenced_transaction(self) -> Iterator[None]:
        self.fence()
        with self._connection.transaction():
            yield

    def retry(self, now: Micros) -> IngestResult:
        """Decode and archive dead letters marked for retry again, as parts of their units.

        Letters of streams that are undeclared, or wait, stay marked. The transaction that deletes
        the dead letters also updates the counters of their units. Rows appended before a crash are
        recognised by unit and line, as in `ingest`.
        """
        letters = self._dead_letter_gateway.list_marked(self._writable_streams, _RETRY_BATCH)
        batch = self._start_batch(now)
        retried, archived = self._append_letters(letters, batch)
        self.engines.local.count_archived_lines([unit.open_unit for unit in retried], batch)
        self._finish_retries(retried, batch)
        self._update_memory(archived)
        return IngestResult(archived)

    def _append_letters(
        self, letters: Sequence[MarkedDeadLetterRow], batch: IngestBatch
    ) -> tuple[list[_RetriedUnit], dict[str, ArchivedRows]]:
        """Decode letters, and append the rows that are new; by stream what was archived."""
        retried: list[_RetriedUnit] = []
        on_time: dict[str, list[pa.Table]] = {}
        appended_rows: Counter[str] = Counter()
        for (stream, unit_id), group in groupby(letters, key=attrgetter("stream", "unit_id")):
            unit_letters = list(group)
            closed_keys = self.closed_keys.get(stream, {})
            rule = retry_rule(unit_letters, self.watermark(stream), closed_keys)
            open_unit = OpenUnit(retry_unit(unit_letters), unit_id, rule)
            retried.append(_RetriedUnit(open_unit, unit_letters))
            for decoded_slice in decode_unit(open_unit, batch):
                on_time_rows, appended = self.engines.local.append_slices([decoded_slice], batch)
                appended_rows[stream] += appended
                on_time.setdefault(stream, []).append(on_time_rows)
            batch.finish_reading(open_unit)
        archived: dict[str, ArchivedRows] = {}
        for stream, tables in on_time.items():
            archived[stream] = ArchivedRows(appended_rows[stream], pa.concat_tables(tables))
        return retried, archived

    def _finish_retries(self, retried: Iterable[_RetriedUnit], batch: IngestBatch) -> None:
        """Record in the ledger what became of retried letters, in one transaction."""
        with self.fenced_transaction():
            for open_unit, unit_letters in retried:
                self.catalog.record_retried(
                    open_unit.id,
                    lines=[letter.line for letter in unit_letters],
                    change=open_unit.counters - count_letters(unit_letters),
                )
                self._insert_dead_letters(open_unit)
            self._raise_newest(unit.open_unit for unit in retried)
            self._record_late_rows(batch)
            closed_keys = self._record_closed_keys(batch, [unit.open_unit for unit in retried])
            self._interrupted.record_appends()
        self._interrupted.end_batch()
        self.progress = batch.progress.streams
        self._closed_keys.by_source = closed_keys

    def cancel_retries(self) -> None:
        """Withdraw the requests to retry dead letters that `retry` has yet to process."""
        self._dead_letter_gateway.unmark(self._writable_streams)

    def count_pending_retries(self) -> int:
        """Number of dead letters of streams that can be written that `retry` has yet to process."""
        return self._dead_letter_gateway.count_marked(self._writable_streams)

    def advance(self, event_times: Mapping[str, Micros], *, ahead: bool = False) -> None:
        """Advance streams without data to event times in microseconds, by stream.

        For idle streams, and for all streams at the end of input. `ahead`: their watermarks follow
        rows ahead of the clock.
        """
        with self.fenced_transaction():
            for stream, event_time in event_times.items():
                self.catalog.advance(stream, event_time, ahead=ahead)
        for stream, event_time in event_times.items():
            self.progress[stream] = self.progress[stream].with_advanced(event_time, ahead=ahead)

    def advance_partitions(
        self, event_times: Mapping[tuple[str, str], Micros], *, ahead: bool = False
    ) -> None:
        """Advance partitions without data to event times, by stream and partition name.

        `ahead`: see `advance`.
        """
        advanced: dict[tuple[str, str], PartitionProgress] = {}
        for (stream, name), event_time in event_times.items():
            partition = self.partitions[stream][name]
            progress = partition.progress.with_advanced(event_time, ahead=ahead)
            advanced[stream, name] = replace(partition, progress=progress)
        with self.fenced_transaction():
            for (stream, name), partition in advanced.items():
                self.topics.put(stream, name, partition)

    def update_chunk_states(
        self,
        policy: LifecyclePolicy,
        requirements: Sequence[Requirement],
        watermarks: Sequence[Micros | None],
        chunks_in_use: ChunksInUse,
    ) -> list[MaintenanceTask]:
        """Store the states that chunks have reached; returns the maintenance tasks now due.

        `watermarks`: of each stream, in microseconds; None: nothing was read. `chunks_in_use` is
        called only if a chunk can be deleted.
        """
        records = self.catalog.chunk_records()
        used_chunks: Collection[int] = ()
        if any(record.awaits_deletion for record in records):
            used_chunks = chunks_in_use()
        plan = plan_steps(
            records,
            policy,
            watermark=lowest(watermarks),
            newest=latest(*watermarks),
            requirements=requirements,
            chunks_in_use=used_chunks,
        )
        changes = [step for step in plan if not isinstance(step, MaintenanceTask)]
        if changes:
            with self.fenced_transaction():
                for change in changes:
                    if isinstance(change, StateChange):
                        self._chunk_gateway.set_state(change.chunk, change.state)
                    else:
                        self._chunk_gateway.put_completed_task(change.chunk, change.name, 0)
            self._cutter.reload()
        return [step for step in plan if isinstance(step, MaintenanceTask)]

    def delete_chunks_before(self, ledger_compaction: LedgerCompaction, oldest: Micros) -> None:
        """See `LedgerCompaction.delete_chunks_before`."""
        self.fence()
        ledger_compaction.delete_chunks_before(oldest)
        self._cutter.reload()

    def forget_failures(self, task: str) -> None:
        """Forget the failures of a maintenance task, which is planned anew for all chunks."""
        with self.fenced_transaction():
            self._chunk_gateway.delete_errors_of(task)

    def record_results(self, results: Iterable[MaintenanceResult]) -> None:
        """Record finished maintenance tasks, and load the files that they have committed."""
        finished = list(results)
        for result in finished:
            with self.fenced_transaction():
                task = result.task
                if result.error is not None:
                    self._chunk_gateway.put_error(task.chunk, task.name, result.error)
                    continue
                self._chunk_gateway.delete_error(task.chunk, task.name)
                if task.name == COMPACT:
                    continue
                if self._chunk_gateway.put_completed_task(task.chunk, task.name, task.version):
                    self.catalog.add_deleted_rows(result.rows_by_unit)
        if finished:
            for table in self.tables.values():
                table.refresh()


def _create_recent_rows(table: StreamTable) -> RecentRows:
    newest = max((file.newest for file in table.accounted_files()), default=None)
    return RecentRows(table.schema, newest, _MAX_RECENT_BYTES)
