"""Append source units to the archive: each record once, in its chunk, counted in the ledger.

A unit is read in slices. The rows of a slice are classified, divided into chunks, and appended with
one commit per stream. When all slices of a batch are appended, one transaction updates the ledger.
After a crash in between, the next process reads the unit again; rows appended before are recognised
by unit and line.

The order of writes is: ends of chunks before rows after them, rows before the ledger counts them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter

import numpy as np
import pyarrow as pa

import sql
from archiver.chunks import (
    Chunk,
    CutPolicy,
    LifecyclePolicy,
    MaintenanceResult,
    MaintenanceTask,
    Requirement,
    StateChange,
    locate,
    plan_steps,
)
from archiver.delta import StreamSchema, StreamTable
from archiver.ingest.chunk_cutter import ChunkCutter
from archiver.ingest.classify import late_bound, latest
from archiver.ingest.dead_letters import count_letters, retry_unit
from archiver.ingest.ledger import Catalog, LedgerCompaction
from archiver.ingest.open_unit import (
    DecodedSlice,
    OpenUnit,
    count_classified,
    decode_slices,
)
from archiver.ingest.source_units import BATCH_RECORDS, SourceUnit
from archiver.ingest.stream_appender import StreamAppender
from archiver.ingest.watermarks import (
    PartitionProgress,
    ReadProgress,
    lowest,
    partition_watermarks,
    watermark,
)
from archiver.read import RecentRows
from archiver.storage import StorageRoot
from archiver.times import Micros, duration_to_micros, from_micros

_RETRY_BATCH = 10_000  # dead letters retried at once
_MAX_RECENT_BYTES = 64 << 20  # bytes of recently archived rows in memory per stream

# Returns the ids of the chunks that running recalls have yet to read.
ChunksInUse = Callable[[], Collection[int]]


@dataclass(frozen=True)
class IngestResult:
    """The outcome of a batch.

    `on_time`: by stream, the rows that are not late and are now archived, including those that an
    earlier, interrupted read had archived. `appended_rows`: number of rows appended, late ones too.
    """

    on_time: Mapping[str, pa.Table]
    appended_rows: int


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
        self._connection = connection
        self.fence = fence
        self._batch = 0
        # Chunks to which late rows were appended since the last update of the ledger.
        self._chunks_with_late_rows: set[int] = set()
        self.catalog = Catalog(connection)
        self._chunk_gateway = sql.ChunkGateway(connection)
        self._stream_gateway = sql.StreamGateway(connection)
        self._unit_gateway = sql.UnitGateway(connection)
        self._dead_letter_gateway = sql.DeadLetterGateway(connection)
        self.tables: dict[str, StreamTable] = {}
        self.recent_rows: dict[str, RecentRows] = {}
        self._appenders: dict[str, StreamAppender] = {}
        for schema in schemas:
            table = StreamTable(root, schema)
            self.tables[schema.name] = table
            self.recent_rows[schema.name] = _create_recent_rows(table)
            self._appenders[schema.name] = StreamAppender(table)
        with connection.transaction():
            for stream in self.tables:
                self._stream_gateway.insert(stream)
            chunks = self.catalog.chunks()
            self.progress: dict[str, ReadProgress] = self.catalog.stream_progress()
            self.partitions: dict[str, dict[str, PartitionProgress]] = self.catalog.partitions()
        self._cutter = ChunkCutter(connection, self.catalog, policy, self.tables.values(), chunks)

    @property
    def chunks(self) -> list[Chunk]:
        """All chunks, oldest first."""
        return self._cutter.chunks

    def watermark(self, stream: str) -> Micros | None:
        """The watermark of a stream in microseconds: rows before it are complete or late.

        None: nothing was read.
        """
        return watermark(
            self.progress[stream], self.partitions.get(stream, {}), self._lateness(stream)
        )

    def partition_watermarks(self, stream: str) -> dict[str, Micros | None]:
        """The watermark of each partition of a stream, by name; None: nothing of it was read."""
        return partition_watermarks(self.partitions.get(stream, {}), self._lateness(stream))

    def _lateness(self, stream: str) -> Micros:
        return duration_to_micros(self.tables[stream].schema.lateness)

    def ingest(self, units: Iterable[SourceUnit], now: Micros) -> IngestResult:
        """Archive units, those of one stream in the given order. Finished units are skipped.

        `now`: the current time in microseconds; rows too far after it are quarantined.
        """
        self._batch += 1
        open_units: list[OpenUnit] = []
        on_time: dict[str, list[pa.Table]] = {}
        appended_rows = 0
        progress = dict(self.progress)
        for slices in self._decode_units(units, progress, now, open_units):
            on_time_rows, appended = self._append_slices(slices)
            appended_rows += appended
            on_time.setdefault(slices[0].open_unit.unit.stream, []).append(on_time_rows)
        self._finish_units(open_units, progress)
        return IngestResult(_concat_by_stream(on_time), appended_rows)

    def _decode_units(
        self,
        units: Iterable[SourceUnit],
        progress: dict[str, ReadProgress],
        now: Micros,
        open_units: list[OpenUnit],
    ) -> Iterator[list[DecodedSlice]]:
        """Yields consecutive slices of one stream that are to be appended together.

        Adds the units that are read to `open_units`, and what was read to `progress`.
        """
        slices: list[DecodedSlice] = []
        for unit in units:
            if slices and slices[0].open_unit.unit.stream != unit.stream:
                yield slices
                slices = []
            open_unit = self._open_unit(unit, progress)
            if open_unit is None:
                continue
            open_units.append(open_unit)
            for decoded_slice in self._decode_unit(open_unit, now):
                slices.append(decoded_slice)
                if sum(map(len, slices)) >= BATCH_RECORDS:
                    yield slices
                    slices = []
            progress[unit.stream] = progress[unit.stream].with_newest(open_unit.newest)
        if slices:
            yield slices

    def _open_unit(self, unit: SourceUnit, progress: Mapping[str, ReadProgress]) -> OpenUnit | None:
        """Register a unit in the ledger; None if it is finished."""
        with self._connection.transaction():
            opened = self._unit_gateway.open(unit.stream, unit.name)
        if opened.done:
            return None
        if unit.partition is not None:
            return self._open_partition(unit, unit.partition, opened.id)
        if unit.stream in self.partitions:
            return OpenUnit(unit, opened.id, self.watermark(unit.stream))
        before = progress[unit.stream]
        bound = late_bound(before.newest, self._lateness(unit.stream), before.advanced)
        return OpenUnit(unit, opened.id, bound)

    def _open_partition(self, unit: SourceUnit, partition: str, unit_id: int) -> OpenUnit:
        before = self.partitions.get(unit.stream, {}).get(partition)
        if before is None:
            # Event times before the stream's watermark were settled without this partition.
            before = PartitionProgress(0, ReadProgress(None, self.watermark(unit.stream)))
        bound = latest(before.progress.advanced, self.progress[unit.stream].advanced)
        return OpenUnit(unit, unit_id, bound, partition_before=before)

    def _decode_unit(self, open_unit: OpenUnit, now: Micros) -> Iterator[DecodedSlice]:
        schema = self.tables[open_unit.unit.stream].schema
        expired_ends = [chunk.to_ts for chunk in self.chunks if chunk.state == "expired"]
        return decode_slices(open_unit, schema, now, latest(*expired_ends))

    def _append_slices(self, slices: Sequence[DecodedSlice]) -> tuple[pa.Table, int]:
        """Classify the rows of slices of one stream, and append the new ones in one commit.

        Returns the on-time rows of the slices that are archived now, and how many were appended.
        """
        stream = slices[0].open_unit.unit.stream
        appender = self._appenders[stream]
        classified = appender.classify(slices, self.chunks)
        is_new, is_archived, is_late = classified.is_new, classified.is_archived, classified.is_late
        self._cutter.cut(classified.ts[is_new])
        chunk_ids = locate(self.chunks, classified.ts)
        rows = classified.with_archive_columns(chunk_ids)
        new_rows = rows.filter(pa.array(is_new))
        if len(new_rows):
            appender.append(
                new_rows,
                classified.entries[is_new],
                chunk_ids[is_new],
                batch=self._batch,
                fence=self.fence,
            )
            is_in_newest_chunk = chunk_ids == self.chunks[-1].id
            self._cutter.count(classified.ts[is_new & is_in_newest_chunk])
        late_chunks = np.unique(chunk_ids[is_archived & is_late])
        self._chunks_with_late_rows.update(late_chunks.tolist())
        count_classified(slices, classified.classification, is_late)
        on_time_rows = rows.filter(pa.array(is_archived & ~is_late))
        self.recent_rows[stream].add(on_time_rows)
        return on_time_rows, len(new_rows)

    def _finish_units(
        self, open_units: Sequence[OpenUnit], progress: dict[str, ReadProgress]
    ) -> None:
        """Record in the ledger that the units are archived, in one transaction."""
        with self._fenced_transaction():
            for open_unit in open_units:
                self._dead_letter_gateway.insert(open_unit.id, open_unit.refused_lines)
                self.catalog.finish_unit(
                    open_unit.id,
                    open_unit.unit.stream,
                    counters=open_unit.counters,
                    newest=open_unit.newest,
                    fields=open_unit.fields,
                )
                unit = open_unit.unit
                if unit.partition is not None:
                    partition = open_unit.partition_after()
                    self.catalog.put_partition(unit.stream, unit.partition, partition)
            self._record_late_rows()
        self._chunks_with_late_rows = set()
        self.progress = progress
        for open_unit in open_units:
            unit = open_unit.unit
            if unit.partition is not None:
                partitions = self.partitions.setdefault(unit.stream, {})
                partitions[unit.partition] = open_unit.partition_after()

    def _record_late_rows(self) -> None:
        if self._chunks_with_late_rows:
            self._chunk_gateway.raise_versions(self._chunks_with_late_rows)

    @contextmanager
    def _fenced_transaction(self) -> Iterator[None]:
        self.fence()
        with self._connection.transaction():
            yield

    def retry(self, now: Micros) -> IngestResult:
        """Decode and archive dead letters marked for retry again, as parts of their units.

        Letters of undeclared streams stay marked. The transaction that deletes the dead letters
        also updates the counters of their units. Rows appended before a crash are recognised by
        unit and line, as in `ingest`.
        """
        letters = self._dead_letter_gateway.list_marked(list(self.tables), _RETRY_BATCH)
        self._batch += 1
        retried: list[tuple[OpenUnit, list[sql.MarkedDeadLetterRow]]] = []
        on_time: dict[str, list[pa.Table]] = {}
        progress = dict(self.progress)
        appended_rows = 0
        for (stream, unit_id), group in groupby(letters, key=attrgetter("stream", "unit_id")):
            unit_letters = list(group)
            open_unit = OpenUnit(retry_unit(unit_letters), unit_id, self.watermark(stream))
            retried.append((open_unit, unit_letters))
            for decoded_slice in self._decode_unit(open_unit, now):
                on_time_rows, appended = self._append_slices([decoded_slice])
                appended_rows += appended
                on_time.setdefault(stream, []).append(on_time_rows)
            progress[stream] = progress[stream].with_newest(open_unit.newest)
        with self._fenced_transaction():
            for open_unit, unit_letters in retried:
                self.catalog.record_retried(
                    open_unit.id,
                    open_unit.unit.stream,
                    lines=[letter.line for letter in unit_letters],
                    change=open_unit.counters - count_letters(unit_letters),
                    newest=open_unit.newest,
                )
                self._dead_letter_gateway.insert(open_unit.id, open_unit.refused_lines)
            self._record_late_rows()
        self._chunks_with_late_rows = set()
        self.progress = progress
        return IngestResult(_concat_by_stream(on_time), appended_rows)

    def count_pending_retries(self) -> int:
        """Number of dead letters of the declared streams that `retry` has yet to process."""
        return self._dead_letter_gateway.count_marked(list(self.tables))

    def advance(self, event_times: Mapping[str, Micros]) -> None:
        """Advance streams without data to event times in microseconds, by stream.

        For idle streams, and for all streams at the end of input.
        """
        with self._fenced_transaction():
            for stream, event_time in event_times.items():
                self._stream_gateway.advance(stream, from_micros(event_time))
        for stream, event_time in event_times.items():
            self.progress[stream] = self.progress[stream].with_advanced(event_time)

    def advance_partitions(self, event_times: Mapping[tuple[str, str], int]) -> None:
        """Advance idle partitions without data to event times in microseconds.

        `event_times`: by stream and partition name.
        """
        advanced: dict[tuple[str, str], PartitionProgress] = {}
        for (stream, name), event_time in event_times.items():
            partition = self.partitions[stream][name]
            progress = partition.progress.with_advanced(event_time)
            advanced[stream, name] = replace(partition, progress=progress)
        with self._fenced_transaction():
            for (stream, name), partition in advanced.items():
                self.catalog.put_partition(stream, name, partition)
        for (stream, name), partition in advanced.items():
            self.partitions[stream][name] = partition

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
        changes = [step for step in plan if isinstance(step, StateChange)]
        if changes:
            with self._fenced_transaction():
                for change in changes:
                    self._chunk_gateway.set_state(change.chunk, change.state)
            self._cutter.reload()
        return [step for step in plan if isinstance(step, MaintenanceTask)]

    def delete_chunks_before(self, ledger_compaction: LedgerCompaction, oldest: Micros) -> None:
        """See `LedgerCompaction.delete_chunks_before`."""
        self.fence()
        ledger_compaction.delete_chunks_before(oldest)
        self._cutter.reload()

    def record_results(self, results: Iterable[MaintenanceResult]) -> None:
        """Record finished maintenance tasks, and load the files that they have committed."""
        finished = list(results)
        for result in finished:
            with self._fenced_transaction():
                task = result.task
                if self._chunk_gateway.put_completed_task(task.chunk, task.name, task.version):
                    self._unit_gateway.add_deleted_rows(result.rows_by_unit)
        if finished:
            for table in self.tables.values():
                table.refresh()


def _create_recent_rows(table: StreamTable) -> RecentRows:
    newest = max((file.newest for file in table.accounted_files()), default=None)
    return RecentRows(table.schema, newest, _MAX_RECENT_BYTES)


def _concat_by_stream(tables: Mapping[str, Sequence[pa.Table]]) -> dict[str, pa.Table]:
    return {stream: pa.concat_tables(parts) for stream, parts in tables.items()}
