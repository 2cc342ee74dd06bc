"""The workspace held against itself: ledger, tables, dead letters and events, by ids."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import compress, pairwise
from typing import Any

import numpy as np
from psycopg import Connection

from archiver.chunks import COUNT_ROWS, Chunk, ChunkState, last_deleted_chunk
from archiver.delta import CONTEXTS, EVENTS, SequencedTable, StreamTable, TableSpec
from archiver.ingest import Catalog
from archiver.times import from_micros, micros_column
from moirae.config import Settings, stream_schema
from moirae.runtime import open_storage

_SETTLED_QUERIES = (
    (EVENTS, "SELECT rule, version, eid::text FROM events WHERE settled AND seq <= %s"),
    (CONTEXTS, "SELECT rule, version, eid::text FROM contexts WHERE corpus <= %s"),
)
# What the row is called that stands for all source units which are folded.
_COMPACTED_UNITS = "earlier sources"


@dataclass(frozen=True)
class Finding:
    """One check: what is wrong, each thing with its id, or the figure that was found to be right."""

    check: str
    wrong: Sequence[str]
    figure: str = ""


def run_checks(settings: Settings, connection: Connection[Any]) -> list[Finding]:
    """All checks. While a process runs, what it is just doing is not yet in the ledger, and is not held against it."""
    catalog, root = Catalog(connection), open_storage(settings)
    chunks = catalog.chunks()
    findings = [_check_chunk_boundaries(chunks), _check_chunk_states(chunks)]
    forgotten = {
        kept.chunk.id for kept in catalog.chunk_records() if COUNT_ROWS in kept.completed_versions
    }
    for name, declared in settings.streams.items():
        ledger = _read_ledger(connection, name)
        table = StreamTable(root, stream_schema(name, declared))
        findings += [
            _check_accounting(name, ledger),
            *_check_rows(name, table, [c for c in chunks if c.id not in forgotten], ledger),
        ]
        findings.append(_check_files(name, table, chunks))
        findings.append(_check_dead_letters(name, connection, ledger))
    findings += [
        _check_archived(settings, connection, kind, stored) for kind, stored in _SETTLED_QUERIES
    ]
    return findings


def _read_ledger(connection: Connection[Any], stream: str) -> list[Any]:
    query = (
        "SELECT id, unit, done, forgotten, read, archived, duplicates, malformed, quarantined, conflicts, expired "
        "FROM units WHERE stream = %s ORDER BY id"
    )
    rows = connection.execute(query, (stream,)).fetchall()
    return [(number, unit or _COMPACTED_UNITS, *rest) for number, unit, *rest in rows]


def _check_chunk_boundaries(chunks: Sequence[Chunk]) -> Finding:
    wrong = [
        f"chunk {after.id} does not begin where chunk {before.id} ends"
        for before, after in pairwise(chunks)
        if before.to_ts is None or before.to_ts != after.from_ts
    ]
    if chunks[0].from_ts is not None or chunks[-1].to_ts is not None:
        wrong.append("the chunks do not cover all time")
    return Finding(
        "chunks follow each other without gap or overlap", wrong, f"{len(chunks)} chunks"
    )


def _check_chunk_states(chunks: Sequence[Chunk]) -> Finding:
    """A present chunk may lie between others while streams lag; what is old or expired is older than what is not."""
    order: list[ChunkState] = ["expired", "old", "recent", "present"]
    wrong = [
        f"chunk {after.id} is {after.state}, chunk {before.id} before it {before.state}"
        for before, after in pairwise(c for c in chunks if c.state != "present")
        if order.index(before.state) > order.index(after.state)
    ]
    counts = Counter(chunk.state for chunk in chunks)
    return Finding(
        "older chunks are not in younger states",
        wrong,
        ", ".join(f"{counts[s]} {s}" for s in order),
    )


def _check_files(stream: str, table: StreamTable, chunks: Sequence[Chunk]) -> Finding:
    """What the table lists is there, in chunks that the catalog knows; what else is there waits to be deleted."""
    listed = table.data_files()
    wrong = [f"{path} is missing" for path in table.missing_files()]
    wrong += [
        f"chunk {chunk} is not in the catalog"
        for chunk in table.files_by_chunk().keys() - {c.id for c in chunks}
    ]
    waiting = len(table.unreferenced_files())
    figure = f"{len(listed):,} files" + (f", {waiting:,} more wait for deletion" if waiting else "")
    return Finding(f"{stream}: the files of the table are there", wrong, figure)


def _check_accounting(stream: str, ledger: list[Any]) -> Finding:
    wrong = [
        f"{unit}: {read} read, {sum(parts)} accounted for"
        for _, unit, _, _, read, *parts in ledger
        if read != sum(parts)
    ]
    total = sum(row[4] for row in ledger)
    return Finding(
        f"{stream}: read = archived + duplicates + dead letters, each source",
        wrong,
        f"{total:,} records",
    )


def _check_rows(
    stream: str, table: StreamTable, chunks: Sequence[Chunk], ledger: list[Any]
) -> Iterator[Finding]:
    """Chunk by chunk: the identity includes the time, so rows with equal ids would lie in the same chunk."""
    units: Counter[int] = Counter()
    twice: list[str] = []
    astray: list[str] = []
    for chunk in chunks:
        rows = table.read(["_id", "_unit", table.schema.time], chunk.id)
        ids = rows["_id"].to_pylist()
        twice += [f"{i.hex()} in chunk {chunk.id}" for i, n in Counter(ids).items() if n > 1]
        ts = micros_column(rows, table.schema.time)
        outside = (ts < (chunk.from_ts if chunk.from_ts is not None else ts)) | (
            ts >= chunk.to_ts if chunk.to_ts is not None else np.zeros(len(ts), dtype=bool)
        )
        astray += [
            f"row of {from_micros(int(t)).isoformat()} in chunk {chunk.id}" for t in ts[outside]
        ]
        units.update(rows["_unit"].to_pylist())
    strange = units.keys() - {row[0] for row in ledger}
    folded = next((row[0] for row in ledger if row[1] == _COMPACTED_UNITS), None)
    if folded is not None:
        units[folded] = sum(units.pop(number) for number in strange)
        strange = set()
    differ = [
        f"{unit}: ledger {archived}, table {units[number]}"
        + (f", expired {forgotten}" if forgotten else "")
        for number, unit, done, forgotten, _, archived, *_ in ledger
        if done and units[number] != archived - forgotten
    ]
    differ += [
        f"{units[number]} rows of unit {number}, which the ledger does not know"
        for number in strange
    ]
    in_flight = sum(units[row[0]] for row in ledger if not row[2])
    figure = f"{units.total():,} rows" + (f", {in_flight:,} of them in flight" if in_flight else "")
    yield Finding(f"{stream}: the table holds what the ledger says, each source", differ, figure)
    yield Finding(f"{stream}: no identity twice", twice, f"{units.total():,} ids")
    yield Finding(f"{stream}: each row in the chunk of its time", astray, f"{len(chunks)} chunks")


def _check_dead_letters(stream: str, connection: Connection[Any], ledger: list[Any]) -> Finding:
    query = (
        "SELECT u.id, u.dropped + count(d.line) FROM units u LEFT JOIN dead_letters d ON u.id = d.unit_id "
        "WHERE stream = %s GROUP BY u.id"
    )
    kept = dict(connection.execute(query, (stream,)).fetchall())
    wrong = [
        f"{unit}: ledger {sum(dead)}, kept {kept.get(number, 0)}"
        for number, unit, done, _, _, _, _, *dead in ledger
        if done and kept.get(number, 0) != sum(dead)
    ]
    return Finding(
        f"{stream}: each dead letter is kept, or was for its time",
        wrong,
        f"{sum(kept.values()):,} of them",
    )


def _check_archived(
    settings: Settings, connection: Connection[Any], kind: TableSpec, stored: str
) -> Finding:
    """`stored`: a query of (rule, version, eid) up to a number. What is about chunks that have left need not be known
    but to the archive."""
    name = kind[0]
    table = SequencedTable(open_storage(settings), kind)
    archived = table.read()
    keys = list(
        zip(*(archived[column].to_pylist() for column in ("rule", "version", "eid")), strict=True)
    )
    kept = set(connection.execute(stored.encode(), (table.last_number(),)).fetchall())
    gone = last_deleted_chunk(Catalog(connection).chunk_records())
    since = None if gone is None else gone.to_ts
    due = keys if since is None else compress(keys, micros_column(archived, "ts") >= since)
    wrong = [f"{' '.join(key)} archived {n} times" for key, n in Counter(keys).items() if n > 1]
    wrong += [f"{' '.join(key)} is settled, not archived" for key in kept - set(keys)]
    wrong += [f"{' '.join(key)} is archived, not settled" for key in set(due) - kept]
    return Finding(f"settled {name} are archived, each once", wrong, f"{len(keys):,} {name}")
