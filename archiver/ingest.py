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

from archiver import chunk as chunks
from archiver.admission import Mask, column, judge, late, late_bound, late_in_order
from archiver.catalog import Catalog, Counters, Letter
from archiver.chunk import Chunk, CutPolicy, Newest
from archiver.decode import Format, Refused
from archiver.folding import Folding
from archiver.identity import Array, IdentityIndex, entries, fingerprint
from archiver.lifecycle import FORGET, Becomes, Need, Policy, Work, steps
from archiver.place import Root
from archiver.progress import Partition, Progress, partition_watermarks, watermark
from archiver.recent import RecentRows
from archiver.roller import Done
from archiver.schema import StreamSchema
from archiver.table import StreamTable
from archiver.times import span
from archiver.units import PIECE, Unit, pieces

# Dead letters that are retried at a time.
_RETRIED = 10_000
# Rows whose identities are kept in memory, per stream; 56 bytes each.
_INDEXED_ROWS = 4_000_000
# Bytes of just archived rows kept in memory, per stream.
_RECENT_BYTES = 64 << 20

# The chunks that running recalls have still to read.
Pinned = Callable[[], Collection[int]]


@dataclass
class _Reading:
    """A unit while it is read."""

    unit: Unit
    id: int
    bound: int | None
    counters: Counters = field(default_factory=Counters)
    refused: list[Refused] = field(default_factory=list)
    newest: int | None = None
    fields: Sequence[str] | None = None
    # Of a partition: how far it had been read.
    before: Partition | None = None

    def late(self, ts: Array, lateness: int) -> Array:
        """Which rows, that come after those seen, are late."""
        if self.before is None:
            return late(ts, self.bound)
        known = [n for n in (self.before.progress.newest, self.newest) if n is not None]
        return late_in_order(ts, max(known, default=None), lateness, self.bound)

    def after(self) -> Partition:
        """How far its partition has been read with it."""
        assert self.before is not None and self.unit.numbers
        return Partition(self.unit.numbers[-1] + 1, _moved(self.before.progress, self.newest))

    def saw(self, ts: Array) -> None:
        if len(ts):
            self.newest = max(int(ts.max()), self.newest if self.newest is not None else int(ts.max()))

    def refuse(self, refused: list[Refused]) -> None:
        self.refused += refused
        for one in refused:
            self.count(**{_COUNTER[one.reason]: 1})

    def count(self, **more: int) -> None:
        self.counters = self.counters + Counters(**more)


_COUNTER = {
    "malformed": "malformed",
    "quarantined": "quarantined",
    "conflict": "conflicts",
    "expired": "expired",
}


@dataclass(frozen=True)
class _Slice:
    """Decoded rows of one unit, on their way into the table."""

    reading: _Reading
    table: pa.Table
    late: Array
    lines: list[int]
    raw: Sequence[bytes]


@dataclass(frozen=True)
class Ingested:
    """One batch: the on-time rows that the archive now holds, by stream, and how many rows were appended."""

    on_time: Mapping[str, pa.Table]
    appended: int


class Archive:
    """The one writer of a workspace's archive. `fence` raises when another process has taken over."""

    def __init__(
        self,
        root: Root,
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
        self._late_into: set[int] = set()
        self.catalog = Catalog(connection)
        self.tables = {schema.name: StreamTable(root, schema) for schema in schemas}
        self.recent = {name: _recent(table) for name, table in self.tables.items()}
        self._index = {name: IdentityIndex(table.identities, _INDEXED_ROWS) for name, table in self.tables.items()}
        with connection.transaction():
            self.catalog.add_streams(list(self.tables))
            self.chunks: list[Chunk] = self.catalog.chunks()
            self.progress: dict[str, Progress] = self.catalog.progress()
            self.partitions: dict[str, dict[str, Partition]] = self.catalog.partitions()
        self._held = self._held_by_newest()

    def _held_by_newest(self) -> Newest:
        held = [t.chunks()[self.chunks[-1].id] for t in self.tables.values() if self.chunks[-1].id in t.chunks()]
        if not held:
            return Newest()
        return Newest(sum(h.rows for h in held), min(h.oldest for h in held), max(h.newest for h in held))

    def watermark(self, stream: str) -> int | None:
        """Rows of the stream before this event time (microseconds) are complete or late. None: nothing read."""
        lateness = span(self.tables[stream].schema.lateness)
        return watermark(self.progress[stream], self.partitions.get(stream, {}), lateness)

    def partition_watermarks(self, stream: str) -> dict[str, int | None]:
        """The same for each partition of a stream, by itself: the one furthest behind holds the stream back."""
        return partition_watermarks(self.partitions.get(stream, {}), span(self.tables[stream].schema.lateness))

    def ingest(self, units: Iterable[Unit], now: int) -> Ingested:
        """Archive the units, those of one stream in the given order. `now` is the clock, for rows of the future."""
        self._batch += 1
        readings: list[_Reading] = []
        on_time: dict[str, list[pa.Table]] = {}
        appended = 0
        progress = dict(self.progress)
        for slices in self._slices(units, progress, now, readings):
            fresh, rows = self._append(slices)
            appended += rows
            on_time.setdefault(slices[0].reading.unit.stream, []).append(fresh)
        self._finish(readings, progress)
        return Ingested({name: pa.concat_tables(parts) for name, parts in on_time.items()}, appended)

    def _slices(
        self, units: Iterable[Unit], progress: dict[str, Progress], now: int, readings: list[_Reading]
    ) -> Iterator[list[_Slice]]:
        """Runs of slices of one stream that are appended together; `readings` and `progress` grow along."""
        waiting: list[_Slice] = []
        for unit in units:
            if waiting and waiting[0].reading.unit.stream != unit.stream:
                yield waiting
                waiting = []
            reading = self._open(unit, progress)
            if reading is None:
                continue
            readings.append(reading)
            for piece in self._read(reading, now):
                waiting.append(piece)
                if sum(len(p.lines) for p in waiting) >= PIECE:
                    yield waiting
                    waiting = []
            progress[unit.stream] = _moved(progress[unit.stream], reading.newest)
        if waiting:
            yield waiting

    def _open(self, unit: Unit, progress: Mapping[str, Progress]) -> _Reading | None:
        with self._connection.transaction():
            number, done = self.catalog.open_unit(unit.stream, unit.name)
        if done:
            return None
        if unit.partition is not None:
            return self._open_partition(unit, unit.partition, number)
        if unit.stream in self.partitions:
            return _Reading(unit, number, self.watermark(unit.stream))
        seen, schema = progress[unit.stream], self.tables[unit.stream].schema
        return _Reading(unit, number, late_bound(seen.newest, span(schema.lateness), seen.advanced))

    def _open_partition(self, unit: Unit, partition: str, number: int) -> _Reading:
        before = self.partitions.get(unit.stream, {}).get(partition)
        if before is None:
            # What the stream's watermark has passed was settled without this partition.
            before = Partition(0, Progress(None, self.watermark(unit.stream)))
        bounds = [before.progress.advanced, self.progress[unit.stream].advanced]
        bound = max((b for b in bounds if b is not None), default=None)
        return _Reading(unit, number, bound, before=before)

    def _read(self, reading: _Reading, now: int) -> Iterator[_Slice]:
        schema = self.tables[reading.unit.stream].schema
        horizon = now + span(schema.future)
        for piece in pieces(reading.unit, schema):
            reading.count(read=piece.read)
            reading.fields = piece.fields
            table, kept, raw, refused = piece.rows.table, piece.rows.lines, piece.rows.raw, list(piece.rows.refused)
            ts = column(table, schema.time)
            ahead, gone = ts > horizon, self._expired(ts)
            if (ahead | gone).any():
                too_new = f"ahead of the clock by more than {schema.future}"
                refused += [Refused(kept[i], "quarantined", too_new, raw[i]) for i in np.flatnonzero(ahead).tolist()]
                too_old = "of a time whose chunk has expired"
                refused += [Refused(kept[i], "expired", too_old, raw[i]) for i in np.flatnonzero(gone).tolist()]
                keep = np.flatnonzero(~(ahead | gone)).tolist()
                table = table.take(pa.array(keep, pa.int64()))
                kept, raw, ts = [kept[i] for i in keep], [raw[i] for i in keep], ts[keep]
            reading.refuse(refused)
            yield _Slice(reading, table, reading.late(ts, span(schema.lateness)), kept, raw)
            reading.saw(ts)

    def _expired(self, ts: Array) -> Mask:
        """Rows of chunks that are kept no longer."""
        ends = [c.to_ts for c in self.chunks if c.state == "expired" and c.to_ts is not None]
        return np.asarray(ts < max(ends)) if ends else np.zeros(len(ts), dtype=bool)

    def _append(self, slices: list[_Slice]) -> tuple[pa.Table, int]:
        """Judge the rows of the slices and commit what is new. Returns the on-time rows now held, and how many new."""
        stream = slices[0].reading.unit.stream
        table = self.tables[stream]
        rows = pa.concat_tables([s.table for s in slices])
        lines = np.array([line for s in slices for line in s.lines], dtype=np.int64)
        sizes = [len(s.lines) for s in slices]
        units = np.repeat([s.reading.id for s in slices], sizes)
        ts = column(rows, table.schema.time)
        is_late = np.concatenate([s.late for s in slices])
        ids, hashes = fingerprint(table.schema, rows)
        marked = entries(ids, hashes, units, lines)
        known, archived = self._find(stream, marked, chunks.locate(self.chunks, ts))
        verdicts = judge(marked, known, archived)
        self._cut(ts[verdicts.new])
        parts = chunks.locate(self.chunks, ts)
        rows = _complete(rows, is_late, ids, marked, parts)
        fresh = rows.filter(pa.array(verdicts.new))
        if len(fresh):
            # The index of a chunk is loaded from the table: get it before the rows are there.
            indexes = {int(part): self._index[stream].of(int(part)) for part in np.unique(parts[verdicts.new])}
            self.fence()
            table.append(fresh, self._batch)
            for part, index in indexes.items():
                index.add(marked[verdicts.new & (parts == part)])
            self._hold(ts[verdicts.new], parts[verdicts.new])
        self._late_into.update(np.unique(parts[(verdicts.new | verdicts.again) & is_late]).tolist())
        self._count(slices, verdicts, is_late)
        held = rows.filter(pa.array((verdicts.new | verdicts.again) & ~is_late))
        self.recent[stream].add(held)
        return held, len(fresh)

    def _find(self, stream: str, marked: Array, parts: Array) -> tuple[Array, Array]:
        known = np.zeros(len(marked), dtype=bool)
        archived = np.zeros(len(marked), dtype=marked.dtype)
        for part in np.unique(parts):
            here = parts == part
            known[here], archived[here] = self._index[stream].of(int(part)).find(marked["id"][here])
        return known, archived

    def _cut(self, ts: Array) -> None:
        last = self.chunks[-1]
        arriving = ts if last.from_ts is None else ts[ts >= last.from_ts]
        ends = chunks.plan_cuts(arriving, self._held, self._policy)
        if not ends:
            return
        cut = chunks.cut(self.chunks, ends)
        with self._connection.transaction():
            self.catalog.put_chunks(cut[len(self.chunks) - 1 :])
        self.chunks, self._held = cut, Newest()

    def _hold(self, ts: Array, parts: Array) -> None:
        mine = ts[parts == self.chunks[-1].id]
        if len(mine):
            held = self._held
            self._held = Newest(
                held.rows + len(mine),
                min(int(mine.min()), held.oldest if held.oldest is not None else int(mine.min())),
                max(int(mine.max()), held.newest if held.newest is not None else int(mine.max())),
            )

    def _count(self, slices: list[_Slice], verdicts: Any, is_late: Array) -> None:
        at = 0
        for piece in slices:
            here = slice(at, at + len(piece.lines))
            at = here.stop
            held = verdicts.new[here] | verdicts.again[here]
            piece.reading.count(
                archived=int(held.sum()),
                late=int((held & is_late[here]).sum()),
                duplicates=int(verdicts.duplicate[here].sum()),
            )
            piece.reading.refuse(
                [
                    Refused(
                        piece.lines[i], "conflict", "same id and time as an archived row, other content", piece.raw[i]
                    )
                    for i in np.flatnonzero(verdicts.conflict[here]).tolist()
                ]
            )

    def _finish(self, readings: list[_Reading], progress: dict[str, Progress]) -> None:
        self.fence()
        with self._connection.transaction():
            for reading in readings:
                self.catalog.put_dead_letters(reading.id, reading.refused)
                values = (reading.counters, reading.newest, reading.fields)
                self.catalog.finish_unit(reading.id, reading.unit.stream, *values)
                if reading.unit.partition is not None:
                    self.catalog.put_partition(reading.unit.stream, reading.unit.partition, reading.after())
            if self._late_into:
                self.catalog.came_late(self._late_into)
        self._late_into = set()
        self.progress = progress
        for reading in readings:
            if reading.unit.partition is not None:
                self.partitions.setdefault(reading.unit.stream, {})[reading.unit.partition] = reading.after()

    def retry(self, now: int) -> Ingested:
        """Take up dead letters that somebody wants retried, as part of the units that they came with.

        Those of streams that are not declared any more wait until they are again. What is archived now leaves the dead
        letters in the transaction that moves its unit's counters. A row that a process appended before it died is
        recognised by unit and line, like any other.
        """
        letters = self.catalog.letters_to_retry(list(self.tables), _RETRIED)
        self._batch += 1
        readings: list[tuple[_Reading, list[Letter]]] = []
        on_time: dict[str, list[pa.Table]] = {}
        progress = dict(self.progress)
        appended = 0
        for (stream, number), found in groupby(letters, key=lambda letter: (letter.stream, letter.unit_id)):
            lines = list(found)
            reading = _Reading(_again(lines), number, self.watermark(stream))
            readings.append((reading, lines))
            for piece in self._read(reading, now):
                fresh, rows = self._append([piece])
                appended += rows
                on_time.setdefault(stream, []).append(fresh)
            progress[stream] = _moved(progress[stream], reading.newest)
        self.fence()
        with self._connection.transaction():
            for reading, lines in readings:
                before = Counters()
                for letter in lines:
                    before += Counters(read=1, **{_COUNTER[letter.reason]: 1})
                values = (reading.counters - before, reading.newest)
                self.catalog.retried(reading.id, reading.unit.stream, [letter.line for letter in lines], *values)
                self.catalog.put_dead_letters(reading.id, reading.refused)
            if self._late_into:
                self.catalog.came_late(self._late_into)
        self._late_into = set()
        self.progress = progress
        return Ingested({name: pa.concat_tables(parts) for name, parts in on_time.items()}, appended)

    def still_to_retry(self) -> int:
        """How many dead letters wait for `retry`."""
        return self.catalog.still_to_retry(list(self.tables))

    def advance(self, points: Mapping[str, int]) -> None:
        """Move streams on without data to event times (microseconds): idle streams, and all at the end of time."""
        self.fence()
        with self._connection.transaction():
            for stream, point in points.items():
                self.catalog.advance(stream, point)
        for stream, point in points.items():
            seen = self.progress[stream]
            advanced = point if seen.advanced is None else max(point, seen.advanced)
            self.progress[stream] = replace(seen, advanced=advanced)

    def advance_partitions(self, points: Mapping[tuple[str, str], int]) -> None:
        """Move idle partitions on without data to event times (microseconds)."""
        self.fence()
        moved = {}
        for (stream, name), point in points.items():
            seen = self.partitions[stream][name]
            advanced = max(point, seen.progress.advanced if seen.progress.advanced is not None else point)
            moved[stream, name] = replace(seen, progress=replace(seen.progress, advanced=advanced))
        with self._connection.transaction():
            for (stream, name), partition in moved.items():
                self.catalog.put_partition(stream, name, partition)
        for (stream, name), partition in moved.items():
            self.partitions[stream][name] = partition

    def roll(self, policy: Policy, needs: Sequence[Need], marks: Sequence[int | None], pinned: Pinned) -> list[Work]:
        """Give chunks the states that they should have; returns the work to do for them.

        `marks`: how far each stream is read (microseconds; None: not at all). `pinned` tells the chunks that running
        recalls have still to read, when somebody has to know.
        """
        known = [mark for mark in marks if mark is not None]
        watermark = min(known) if known and len(known) == len(marks) else None
        kept = self.catalog.kept()
        expired = any(k.chunk.state == "expired" and FORGET not in k.done for k in kept)
        plan = steps(kept, policy, watermark, max(known, default=None), needs, pinned() if expired else ())
        states = [step for step in plan if isinstance(step, Becomes)]
        if states:
            self.fence()
            with self._connection.transaction():
                for step in states:
                    self.catalog.become(step.chunk, step.state)
            self.chunks = self.catalog.chunks()
        return [step for step in plan if isinstance(step, Work)]

    def forget_chunks(self, folding: Folding, oldest: int) -> None:
        """Chunks have left up to this one, which stands for them from now on."""
        self.fence()
        folding.forget_chunks(oldest)
        self.chunks = self.catalog.chunks()

    def done(self, done: Iterable[Done]) -> None:
        """Record work that was done for chunks, and see the files that came of it."""
        finished = list(done)
        for one in finished:
            self.fence()
            with self._connection.transaction():
                if self.catalog.prepared(one.work):
                    self.catalog.forget_rows(one.rows)
        if finished:
            for table in self.tables.values():
                table.refresh()


def _moved(seen: Progress, newest: int | None) -> Progress:
    """How far a stream has been read when one more unit has."""
    if newest is None:
        return seen
    return replace(seen, newest=newest if seen.newest is None else max(seen.newest, newest))


def _again(letters: Sequence[Letter]) -> Unit:
    """Dead letters of one unit, to be read once more."""
    first, raw = letters[0], [letter.raw for letter in letters]
    form: Format = "jsonl" if first.fields is None else "csv"
    numbers = [letter.line for letter in letters]
    return Unit(first.stream, "", form, lambda: iter(raw), numbers, first.fields)


def _recent(table: StreamTable) -> RecentRows:
    newest = max((held.newest for held in table.chunks().values()), default=None)
    return RecentRows(table.schema, newest, _RECENT_BYTES)


def _complete(rows: pa.Table, is_late: Array, ids: list[bytes], marked: Array, parts: Array) -> pa.Table:
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
