"""Source units into the archive: each record once, in its chunk, counted.

A unit is read in slices. A slice is decoded, judged (on time or late, new or a repetition), cut into chunks and
appended with one commit; when all slices of a batch are in, the ledger takes the counters in one transaction. A
process that dies in between reads the unit again: rows that it had appended are recognised by unit and line.
Publish first, forget last: chunk ends before the rows beyond them, rows before the ledger says they are there.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from psycopg import Connection

from archiver.chunks import (
    DELETE_CHUNK,
    Chunk,
    CutPolicy,
    LifecyclePolicy,
    MaintenanceResult,
    MaintenanceTask,
    NewestChunkStats,
    Requirement,
    StateChange,
    apply_cuts,
    locate,
    plan_cuts,
    plan_steps,
)
from archiver.delta import (
    Array,
    IdentityIndex,
    StreamSchema,
    StreamTable,
    build_entries,
    fingerprint,
)
from archiver.ingest.catalog import Catalog, Counters, DeadLetter
from archiver.ingest.classify import Mask, classify, flag_late, flag_late_in_order, late_bound
from archiver.ingest.ledger_compaction import LedgerCompaction
from archiver.ingest.line_decoder import LineFormat, RefusedLine
from archiver.ingest.source_units import BATCH_RECORDS, SourceUnit, read_batches
from archiver.ingest.watermarks import (
    PartitionProgress,
    ReadProgress,
    partition_watermarks,
    watermark,
)
from archiver.read import RecentRows
from archiver.storage import StorageRoot
from archiver.times import duration_to_micros, micros_column

# Dead letters that are retried at a time.
_RETRY_BATCH = 10_000
# Rows whose identities are kept in memory, per stream; 56 bytes each.
_MAX_INDEXED_ROWS = 4_000_000
# Bytes of just archived rows kept in memory, per stream.
_MAX_RECENT_BYTES = 64 << 20

# The chunks that running recalls have still to read.
ChunksInUse = Callable[[], Collection[int]]


@dataclass
class _OpenUnit:
    """A unit while it is read."""

    unit: SourceUnit
    id: int
    late_before: int | None
    counters: Counters = field(default_factory=Counters)
    refused_lines: list[RefusedLine] = field(default_factory=list)
    newest: int | None = None
    fields: Sequence[str] | None = None
    # Of a partition: how far it had been read.
    partition_before: PartitionProgress | None = None

    def flag_late(self, ts: Array, lateness: int) -> Array:
        """Which rows, that come after those seen, are late."""
        if self.partition_before is None:
            return flag_late(ts, self.late_before)
        known = [n for n in (self.partition_before.progress.newest, self.newest) if n is not None]
        return flag_late_in_order(ts, max(known, default=None), lateness, self.late_before)

    def partition_after(self) -> PartitionProgress:
        """How far its partition has been read with it."""
        assert self.partition_before is not None and self.unit.line_numbers
        return PartitionProgress(
            self.unit.line_numbers[-1] + 1,
            _advance_progress(self.partition_before.progress, self.newest),
        )

    def observe_times(self, ts: Array) -> None:
        if len(ts):
            self.newest = max(
                int(ts.max()), self.newest if self.newest is not None else int(ts.max())
            )

    def add_refused(self, refused_lines: list[RefusedLine]) -> None:
        self.refused_lines += refused_lines
        for one in refused_lines:
            self.add_counts(**{_COUNTER_OF_REASON[one.reason]: 1})

    def add_counts(self, **more: int) -> None:
        self.counters = self.counters + Counters(**more)


_COUNTER_OF_REASON = {
    "malformed": "malformed",
    "quarantined": "quarantined",
    "conflict": "conflicts",
    "expired": "expired",
}


@dataclass(frozen=True)
class _DecodedSlice:
    """Decoded rows of one unit, on their way into the table."""

    open_unit: _OpenUnit
    table: pa.Table
    is_late: Array
    line_numbers: list[int]
    raw: Sequence[bytes]


@dataclass(frozen=True)
class IngestResult:
    """One batch: the on-time rows that the archive now holds, by stream, and how many rows were appended."""

    on_time: Mapping[str, pa.Table]
    appended_rows: int


class ArchiveWriter:
    """The one writer of a workspace's archive. `fence` raises when another process has taken over."""

    def __init__(
        self,
        root: StorageRoot,
        schemas: Iterable[StreamSchema],
        policy: CutPolicy,
        connection: Connection[Any],
        fence: Callable[[], None],
    ) -> None:
        self._connection = connection
        self.fence = fence
        self._policy = policy
        self._batch = 0
        # Chunks that rows have come late into, which the ledger does not know yet.
        self._chunks_with_late_rows: set[int] = set()
        self.catalog = Catalog(connection)
        self.tables = {schema.name: StreamTable(root, schema) for schema in schemas}
        self.recent_rows = {name: _create_recent_rows(table) for name, table in self.tables.items()}
        self._identity_indexes = {
            name: IdentityIndex(table.read_identities, _MAX_INDEXED_ROWS)
            for name, table in self.tables.items()
        }
        with connection.transaction():
            self.catalog.add_streams(list(self.tables))
            self.chunks: list[Chunk] = self.catalog.chunks()
            self.progress: dict[str, ReadProgress] = self.catalog.stream_progress()
            self.partitions: dict[str, dict[str, PartitionProgress]] = self.catalog.partitions()
        self._newest_chunk = self._load_newest_chunk()

    def _load_newest_chunk(self) -> NewestChunkStats:
        held = [
            t.files_by_chunk()[self.chunks[-1].id]
            for t in self.tables.values()
            if self.chunks[-1].id in t.files_by_chunk()
        ]
        if not held:
            return NewestChunkStats()
        return NewestChunkStats(
            sum(h.rows for h in held), min(h.oldest for h in held), max(h.newest for h in held)
        )

    def watermark(self, stream: str) -> int | None:
        """Rows of the stream before this event time (microseconds) are complete or late. None: nothing read."""
        lateness = duration_to_micros(self.tables[stream].schema.lateness)
        return watermark(self.progress[stream], self.partitions.get(stream, {}), lateness)

    def partition_watermarks(self, stream: str) -> dict[str, int | None]:
        """The same for each partition of a stream, by itself: the one furthest behind holds the stream back."""
        return partition_watermarks(
            self.partitions.get(stream, {}), duration_to_micros(self.tables[stream].schema.lateness)
        )

    def ingest(self, units: Iterable[SourceUnit], now: int) -> IngestResult:
        """Archive the units, those of one stream in the given order. `now` is the clock, for rows of the future."""
        self._batch += 1
        readings: list[_OpenUnit] = []
        on_time: dict[str, list[pa.Table]] = {}
        appended = 0
        progress = dict(self.progress)
        for slices in self._decode_units(units, progress, now, readings):
            fresh, rows = self._append_slices(slices)
            appended += rows
            on_time.setdefault(slices[0].open_unit.unit.stream, []).append(fresh)
        self._finish_units(readings, progress)
        return IngestResult(
            {name: pa.concat_tables(parts) for name, parts in on_time.items()}, appended
        )

    def _decode_units(
        self,
        units: Iterable[SourceUnit],
        progress: dict[str, ReadProgress],
        now: int,
        readings: list[_OpenUnit],
    ) -> Iterator[list[_DecodedSlice]]:
        """Runs of slices of one stream that are appended together; `readings` and `progress` grow along."""
        waiting: list[_DecodedSlice] = []
        for unit in units:
            if waiting and waiting[0].open_unit.unit.stream != unit.stream:
                yield waiting
                waiting = []
            reading = self._open_unit(unit, progress)
            if reading is None:
                continue
            readings.append(reading)
            for piece in self._decode_unit(reading, now):
                waiting.append(piece)
                if sum(len(p.line_numbers) for p in waiting) >= BATCH_RECORDS:
                    yield waiting
                    waiting = []
            progress[unit.stream] = _advance_progress(progress[unit.stream], reading.newest)
        if waiting:
            yield waiting

    def _open_unit(
        self, unit: SourceUnit, progress: Mapping[str, ReadProgress]
    ) -> _OpenUnit | None:
        with self._connection.transaction():
            number, done = self.catalog.open_unit(unit.stream, unit.name)
        if done:
            return None
        if unit.partition is not None:
            return self._open_partition(unit, unit.partition, number)
        if unit.stream in self.partitions:
            return _OpenUnit(unit, number, self.watermark(unit.stream))
        seen, schema = progress[unit.stream], self.tables[unit.stream].schema
        return _OpenUnit(
            unit,
            number,
            late_bound(seen.newest, duration_to_micros(schema.lateness), seen.advanced),
        )

    def _open_partition(self, unit: SourceUnit, partition: str, number: int) -> _OpenUnit:
        before = self.partitions.get(unit.stream, {}).get(partition)
        if before is None:
            # What the stream's watermark has passed was settled without this partition.
            before = PartitionProgress(0, ReadProgress(None, self.watermark(unit.stream)))
        bounds = [before.progress.advanced, self.progress[unit.stream].advanced]
        bound = max((b for b in bounds if b is not None), default=None)
        return _OpenUnit(unit, number, bound, partition_before=before)

    def _decode_unit(self, reading: _OpenUnit, now: int) -> Iterator[_DecodedSlice]:
        schema = self.tables[reading.unit.stream].schema
        horizon = now + duration_to_micros(schema.future)
        for piece in read_batches(reading.unit, schema):
            reading.add_counts(read=piece.records_read)
            reading.fields = piece.fields
            table, kept, raw, refused = (
                piece.rows.table,
                piece.rows.line_numbers,
                piece.rows.raw,
                list(piece.rows.refused_lines),
            )
            ts = micros_column(table, schema.time)
            ahead, gone = ts > horizon, self._is_expired(ts)
            if (ahead | gone).any():
                too_new = f"ahead of the clock by more than {schema.future}"
                refused += [
                    RefusedLine(kept[i], "quarantined", too_new, raw[i])
                    for i in np.flatnonzero(ahead).tolist()
                ]
                too_old = "of a time whose chunk has expired"
                refused += [
                    RefusedLine(kept[i], "expired", too_old, raw[i])
                    for i in np.flatnonzero(gone).tolist()
                ]
                keep = np.flatnonzero(~(ahead | gone)).tolist()
                table = table.take(pa.array(keep, pa.int64()))
                kept, raw, ts = [kept[i] for i in keep], [raw[i] for i in keep], ts[keep]
            reading.add_refused(refused)
            yield _DecodedSlice(
                reading,
                table,
                reading.flag_late(ts, duration_to_micros(schema.lateness)),
                kept,
                raw,
            )
            reading.observe_times(ts)

    def _is_expired(self, ts: Array) -> Mask:
        """Rows of chunks that are kept no longer."""
        ends = [c.to_ts for c in self.chunks if c.state == "expired" and c.to_ts is not None]
        return np.asarray(ts < max(ends)) if ends else np.zeros(len(ts), dtype=bool)

    def _append_slices(self, slices: list[_DecodedSlice]) -> tuple[pa.Table, int]:
        """Judge the rows of the slices and commit what is new. Returns the on-time rows now held, and how many new."""
        stream = slices[0].open_unit.unit.stream
        table = self.tables[stream]
        rows = pa.concat_tables([s.table for s in slices])
        lines = np.array([line for s in slices for line in s.line_numbers], dtype=np.int64)
        sizes = [len(s.line_numbers) for s in slices]
        units = np.repeat([s.open_unit.id for s in slices], sizes)
        ts = micros_column(rows, table.schema.time)
        is_late = np.concatenate([s.is_late for s in slices])
        ids, hashes = fingerprint(table.schema, rows)
        marked = build_entries(ids, hashes, units, lines)
        known, archived = self._find_archived(stream, marked, locate(self.chunks, ts))
        verdicts = classify(marked, known, archived)
        self._cut_chunks(ts[verdicts.new])
        parts = locate(self.chunks, ts)
        rows = _add_archive_columns(rows, is_late, ids, marked, parts)
        fresh = rows.filter(pa.array(verdicts.new))
        if len(fresh):
            # The index of a chunk is loaded from the table: get it before the rows are there.
            indexes = {
                int(part): self._identity_indexes[stream].for_chunk(int(part))
                for part in np.unique(parts[verdicts.new])
            }
            self.fence()
            table.append(fresh, self._batch)
            for part, index in indexes.items():
                index.add(marked[verdicts.new & (parts == part)])
            self._count_in_newest_chunk(ts[verdicts.new], parts[verdicts.new])
        self._chunks_with_late_rows.update(
            np.unique(parts[(verdicts.new | verdicts.replayed) & is_late]).tolist()
        )
        self._add_counts(slices, verdicts, is_late)
        held = rows.filter(pa.array((verdicts.new | verdicts.replayed) & ~is_late))
        self.recent_rows[stream].add(held)
        return held, len(fresh)

    def _find_archived(self, stream: str, marked: Array, parts: Array) -> tuple[Array, Array]:
        known = np.zeros(len(marked), dtype=bool)
        archived = np.zeros(len(marked), dtype=marked.dtype)
        for part in np.unique(parts):
            here = parts == part
            known[here], archived[here] = (
                self._identity_indexes[stream].for_chunk(int(part)).find(marked["id"][here])
            )
        return known, archived

    def _cut_chunks(self, ts: Array) -> None:
        last = self.chunks[-1]
        arriving = ts if last.from_ts is None else ts[ts >= last.from_ts]
        ends = plan_cuts(arriving, self._newest_chunk, self._policy)
        if not ends:
            return
        cut = apply_cuts(self.chunks, ends)
        with self._connection.transaction():
            self.catalog.put_chunks(cut[len(self.chunks) - 1 :])
        self.chunks, self._newest_chunk = cut, NewestChunkStats()

    def _count_in_newest_chunk(self, ts: Array, parts: Array) -> None:
        mine = ts[parts == self.chunks[-1].id]
        if len(mine):
            held = self._newest_chunk
            self._newest_chunk = NewestChunkStats(
                held.rows + len(mine),
                min(int(mine.min()), held.oldest if held.oldest is not None else int(mine.min())),
                max(int(mine.max()), held.newest if held.newest is not None else int(mine.max())),
            )

    def _add_counts(self, slices: list[_DecodedSlice], verdicts: Any, is_late: Array) -> None:
        at = 0
        for piece in slices:
            here = slice(at, at + len(piece.line_numbers))
            at = here.stop
            held = verdicts.new[here] | verdicts.again[here]
            piece.open_unit.add_counts(
                archived=int(held.sum()),
                late=int((held & is_late[here]).sum()),
                duplicates=int(verdicts.duplicate[here].sum()),
            )
            piece.open_unit.add_refused(
                [
                    RefusedLine(
                        piece.line_numbers[i],
                        "conflict",
                        "same id and time as an archived row, other content",
                        piece.raw[i],
                    )
                    for i in np.flatnonzero(verdicts.conflict[here]).tolist()
                ]
            )

    def _finish_units(self, readings: list[_OpenUnit], progress: dict[str, ReadProgress]) -> None:
        self.fence()
        with self._connection.transaction():
            for reading in readings:
                self.catalog.put_dead_letters(reading.id, reading.refused_lines)
                values = (reading.counters, reading.newest, reading.fields)
                self.catalog.finish_unit(reading.id, reading.unit.stream, *values)
                if reading.unit.partition is not None:
                    self.catalog.put_partition(
                        reading.unit.stream, reading.unit.partition, reading.partition_after()
                    )
            if self._chunks_with_late_rows:
                self.catalog.record_late_rows(self._chunks_with_late_rows)
        self._chunks_with_late_rows = set()
        self.progress = progress
        for reading in readings:
            if reading.unit.partition is not None:
                self.partitions.setdefault(reading.unit.stream, {})[reading.unit.partition] = (
                    reading.partition_after()
                )

    def retry(self, now: int) -> IngestResult:
        """Take up dead letters that somebody wants retried, as part of the units that they came with.

        Those of streams that are not declared any more wait until they are again. What is archived now leaves the dead
        letters in the transaction that moves its unit's counters. A row that a process appended before it died is
        recognised by unit and line, like any other.
        """
        letters = self.catalog.dead_letters_to_retry(list(self.tables), _RETRY_BATCH)
        self._batch += 1
        readings: list[tuple[_OpenUnit, list[DeadLetter]]] = []
        on_time: dict[str, list[pa.Table]] = {}
        progress = dict(self.progress)
        appended = 0
        for (stream, number), found in groupby(
            letters, key=lambda letter: (letter.stream, letter.unit_id)
        ):
            lines = list(found)
            reading = _OpenUnit(_retry_unit(lines), number, self.watermark(stream))
            readings.append((reading, lines))
            for piece in self._decode_unit(reading, now):
                fresh, rows = self._append_slices([piece])
                appended += rows
                on_time.setdefault(stream, []).append(fresh)
            progress[stream] = _advance_progress(progress[stream], reading.newest)
        self.fence()
        with self._connection.transaction():
            for reading, lines in readings:
                before = Counters()
                for letter in lines:
                    before += Counters(read=1, **{_COUNTER_OF_REASON[letter.reason]: 1})
                values = (reading.counters - before, reading.newest)
                self.catalog.record_retried(
                    reading.id, reading.unit.stream, [letter.line for letter in lines], *values
                )
                self.catalog.put_dead_letters(reading.id, reading.refused_lines)
            if self._chunks_with_late_rows:
                self.catalog.record_late_rows(self._chunks_with_late_rows)
        self._chunks_with_late_rows = set()
        self.progress = progress
        return IngestResult(
            {name: pa.concat_tables(parts) for name, parts in on_time.items()}, appended
        )

    def count_pending_retries(self) -> int:
        """How many dead letters wait for `retry`."""
        return self.catalog.count_pending_retries(list(self.tables))

    def advance(self, event_times: Mapping[str, int]) -> None:
        """Move streams on without data to event times (microseconds): idle streams, and all at the end of time."""
        self.fence()
        with self._connection.transaction():
            for stream, point in event_times.items():
                self.catalog.advance(stream, point)
        for stream, point in event_times.items():
            seen = self.progress[stream]
            advanced = point if seen.advanced is None else max(point, seen.advanced)
            self.progress[stream] = replace(seen, advanced=advanced)

    def advance_partitions(self, event_times: Mapping[tuple[str, str], int]) -> None:
        """Move idle partitions on without data to event times (microseconds)."""
        self.fence()
        moved = {}
        for (stream, name), point in event_times.items():
            seen = self.partitions[stream][name]
            advanced = max(
                point, seen.progress.advanced if seen.progress.advanced is not None else point
            )
            moved[stream, name] = replace(seen, progress=replace(seen.progress, advanced=advanced))
        with self._connection.transaction():
            for (stream, name), partition in moved.items():
                self.catalog.put_partition(stream, name, partition)
        for (stream, name), partition in moved.items():
            self.partitions[stream][name] = partition

    def update_chunk_states(
        self,
        policy: LifecyclePolicy,
        requirements: Sequence[Requirement],
        watermarks: Sequence[int | None],
        chunks_in_use: ChunksInUse,
    ) -> list[MaintenanceTask]:
        """Give chunks the states that they should have; returns the work to do for them.

        `marks`: how far each stream is read (microseconds; None: not at all). `pinned` tells the chunks that running
        recalls have still to read, when somebody has to know.
        """
        known = [mark for mark in watermarks if mark is not None]
        watermark = min(known) if known and len(known) == len(watermarks) else None
        kept = self.catalog.chunk_records()
        expired = any(
            k.chunk.state == "expired" and DELETE_CHUNK not in k.completed_versions for k in kept
        )
        plan = plan_steps(
            kept,
            policy,
            watermark,
            max(known, default=None),
            requirements,
            chunks_in_use() if expired else (),
        )
        states = [step for step in plan if isinstance(step, StateChange)]
        if states:
            self.fence()
            with self._connection.transaction():
                for step in states:
                    self.catalog.set_chunk_state(step.chunk, step.state)
            self.chunks = self.catalog.chunks()
        return [step for step in plan if isinstance(step, MaintenanceTask)]

    def delete_chunks_before(self, ledger_compaction: LedgerCompaction, oldest: int) -> None:
        """Chunks have left up to this one, which stands for them from now on."""
        self.fence()
        ledger_compaction.delete_chunks_before(oldest)
        self.chunks = self.catalog.chunks()

    def record_results(self, results: Iterable[MaintenanceResult]) -> None:
        """Record work that was done for chunks, and see the files that came of it."""
        finished = list(results)
        for one in finished:
            self.fence()
            with self._connection.transaction():
                if self.catalog.record_completed(one.task):
                    self.catalog.record_deleted_rows(one.rows_by_unit)
        if finished:
            for table in self.tables.values():
                table.refresh()


def _advance_progress(seen: ReadProgress, newest: int | None) -> ReadProgress:
    """How far a stream has been read when one more unit has."""
    if newest is None:
        return seen
    return replace(seen, newest=newest if seen.newest is None else max(seen.newest, newest))


def _retry_unit(letters: Sequence[DeadLetter]) -> SourceUnit:
    """Dead letters of one unit, to be read once more."""
    first, raw = letters[0], [letter.raw for letter in letters]
    form: LineFormat = "jsonl" if first.fields is None else "csv"
    numbers = [letter.line for letter in letters]
    return SourceUnit(first.stream, "", form, lambda: iter(raw), numbers, first.fields)


def _create_recent_rows(table: StreamTable) -> RecentRows:
    newest = max((held.newest for held in table.files_by_chunk().values()), default=None)
    return RecentRows(table.schema, newest, _MAX_RECENT_BYTES)


def _add_archive_columns(
    rows: pa.Table, is_late: Array, ids: list[bytes], marked: Array, parts: Array
) -> pa.Table:
    added = {
        "_late": pa.array(is_late),
        "_id": pa.array(ids, pa.binary()),
        "_hash": pa.array(np.ascontiguousarray(marked["hash"])),
        "_unit": pa.array(np.ascontiguousarray(marked["unit"])),
        "_line": pa.array(np.ascontiguousarray(marked["line"])),
        "chunk": pa.array(parts, pa.int32()),
    }
    for name, values in added.items():
        rows = rows.append_column(name, values)
    return rows
