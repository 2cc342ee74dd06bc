"""Consistency checks of a workspace: database and archive agree about every row."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import attrgetter
from typing import Any

import sql
from archiver.chunks import Chunk, ChunkState
from archiver.delta import StreamTable
from archiver.ingest import Catalog
from archiver.ingest.ledger import describe_range
from archiver.times import from_micros, micros_column
from moirae.config import Settings
from moirae.inspect.archive_checks import check_tables, describe_tables
from moirae.inspect.archived_rows import ARCHIVED_TABLES, check_archived_rows
from moirae.inspect.finding import Finding
from moirae.inspect.readers import check_readers
from moirae.inspect.set_aside import describe_subject, list_set_aside
from moirae.runtime.storage import archived_streams, open_storage
from sql.archive import (
    DeadLetterGateway,
    FileCheckGateway,
    LedgerRow,
    RepairGateway,
    StreamGateway,
    UnitGateway,
)
from sql.topics import LostRecordsGateway

_STATE_ORDER: tuple[ChunkState, ...] = ("expired", "old", "recent", "present")


def run_checks(settings: Settings, connection: sql.Connection) -> list[Finding]:
    """The results of all checks.

    Rows that a running process is just archiving are not in the ledger yet. They are not reported.
    """
    catalog = Catalog(connection)
    storage = open_storage(settings)
    chunks = catalog.chunks()
    stored_chunks: list[Chunk] = []
    for record in catalog.chunk_records():
        # Rows are counted just before a chunk is deleted.
        if not record.is_counted:
            stored_chunks.append(record.chunk)
    findings = [_check_chunk_boundaries(chunks), _check_chunk_states(chunks)]
    tables = check_tables(storage, FileCheckGateway(connection))
    findings += describe_tables(tables)
    # Tables without a commit are not opened: that would create them.
    is_damaged = {table.table.name: table.is_damaged for table in tables}
    appends = StreamGateway(connection).list_appends()
    for schema in archived_streams(settings, connection):
        name = schema.name
        ledger = UnitGateway(connection).list_ledger(name)
        findings.append(_check_accounting(name, ledger))
        path = f"streams/{schema.table_name}"
        if path not in is_damaged:
            findings += [
                _check_no_rows(name, ledger),
                _check_dead_letters(name, connection, ledger),
            ]
            continue
        if is_damaged[path]:
            findings.append(_refuse_rows(name))
            continue
        table = StreamTable(storage, schema)
        findings += _check_rows(name, table, stored_chunks, ledger)
        findings.append(_check_appends(name, table, appends.get(name)))
        history = settings.archive_history.total_seconds()
        findings.append(_check_chunks_of_files(name, table, chunks, history))
        findings += check_readers(name, table)
        findings.append(_list_foreign_rows(name, table))
        findings.append(_check_dead_letters(name, connection, ledger))
    findings.append(_check_set_aside(connection))
    findings += _check_losses(connection)
    findings += _list_lost_rows(connection)
    for name in ARCHIVED_TABLES:
        if is_damaged.get(name):
            findings.append(_refuse_rows(name))
        elif name in is_damaged:
            findings.append(check_archived_rows(settings, connection, name))
    return findings


def _list_lost_rows(connection: sql.Connection) -> Iterator[Finding]:
    """Rows that a repair could not bring back. They are accounted for: no problem."""
    rows: Counter[str] = Counter()
    for lost in RepairGateway(connection).list_lost():
        rows[lost.stream] += lost.rows
    for stream, count in rows.items():
        yield Finding(f"{stream}: rows that were lost with their files", (), f"{count:,} rows")


def _check_no_rows(stream: str, ledger: Sequence[LedgerRow]) -> Finding:
    """A stream without a table has no rows."""
    rows = sum(unit.archived - unit.deleted for unit in ledger if unit.done)
    problems: list[str] = []
    if rows:
        problems.append(
            f"the table is missing, {rows:,} rows according to the ledger: see "
            "`moirae doctor --repair --dry-run`"
        )
    return Finding(f"{stream}: table and ledger agree, per source unit", problems, "no table yet")


def _refuse_rows(table: str) -> Finding:
    """The rows of a damaged table cannot be compared."""
    problem = "not checked, the table is damaged: see `moirae doctor --repair --dry-run`"
    return Finding(f"{table}: table and database agree", [problem])


def _check_losses(connection: sql.Connection) -> Iterator[Finding]:
    """Whether losses of unread records are acknowledged; of the streams that have lost any."""
    gateway = LostRecordsGateway(connection)
    problems: dict[str, list[str]] = {}
    for loss in gateway.list_open():
        text = f"topic {loss.topic} {describe_range(loss)}: {loss.reason}, see `moirae status`"
        problems.setdefault(loss.stream, []).append(text)
    records: Counter[str] = Counter()
    for count in gateway.count_by_reason():
        records[count.stream] += count.records
    for stream, lost in records.items():
        check = f"{stream}: losses of unread records are acknowledged"
        yield Finding(check, problems.get(stream, ()), f"{lost:,} records known to be lost")


def _unit_name(unit: LedgerRow) -> str:
    return unit.unit or "compacted source units"


def _check_chunk_boundaries(chunks: Sequence[Chunk]) -> Finding:
    problems: list[str] = []
    for before, after in pairwise(chunks):
        if before.to_ts is None or before.to_ts != after.from_ts:
            problems.append(f"chunk {after.id} does not start where chunk {before.id} ends")
    if chunks[0].from_ts is not None or chunks[-1].to_ts is not None:
        problems.append("the chunks do not cover all time")
    check = "chunks follow each other without gap or overlap"
    return Finding(check, problems, f"{len(chunks)} chunks")


def _check_chunk_states(chunks: Sequence[Chunk]) -> Finding:
    """Later chunks are not in an older state.

    Present chunks are left out: while streams lag, one may lie between chunks in other states.
    """
    closed_chunks = [chunk for chunk in chunks if chunk.state != "present"]
    problems: list[str] = []
    for before, after in pairwise(closed_chunks):
        if _STATE_ORDER.index(before.state) > _STATE_ORDER.index(after.state):
            problems.append(
                f"chunk {after.id} is {after.state}, but the earlier chunk {before.id} is "
                f"{before.state}"
            )
    counts = Counter(map(attrgetter("state"), chunks))
    summary = ", ".join(f"{counts[state]} {state}" for state in _STATE_ORDER)
    return Finding("chunk states are in order of time", problems, summary)


def _check_chunks_of_files(
    stream: str, table: StreamTable, chunks: Sequence[Chunk], history: float
) -> Finding:
    """The files of a stream lie in chunks of the catalog.

    `history`: seconds that superseded files stay.
    """
    stored_chunks = {file.chunk for file in table.accounted_files()}
    unknown_chunks = stored_chunks - set(map(attrgetter("id"), chunks))
    problems = list(map("chunk {} is not in the catalog".format, unknown_chunks))
    summary = f"{len(stored_chunks):,} chunks"
    unreferenced = len(table.unreferenced_files(history))
    if unreferenced:
        summary += f", {unreferenced:,} files to be deleted"
    return Finding(f"{stream}: all files are in chunks of the catalog", problems, summary)


def _list_foreign_rows(stream: str, table: StreamTable) -> Finding:
    """Rows that other programs appended. They are history without events: no problem."""
    files = table.foreign_files()
    summary = "none"
    if files:
        rows = sum(map(attrgetter("rows"), files))
        chunks = sorted({file.chunk for file in files})
        numbers = ", ".join(map(str, chunks))
        summary = f"{rows:,} rows in {len(files):,} files of chunks {numbers}"
    return Finding(f"{stream}: rows appended by other programs, not accounted", (), summary)


def _check_accounting(stream: str, ledger: Sequence[LedgerRow]) -> Finding:
    problems: list[str] = []
    for unit in ledger:
        accounted = unit.archived + unit.duplicates + unit.dead_lettered
        if unit.read != accounted:
            problems.append(
                f"{_unit_name(unit)}: {unit.read} records read, {accounted} accounted for"
            )
    check = f"{stream}: read = archived + duplicates + dead letters, per source unit"
    return Finding(check, problems, f"{sum(map(attrgetter('read'), ledger)):,} records")


def _check_rows(
    stream: str, table: StreamTable, chunks: Sequence[Chunk], ledger: Sequence[LedgerRow]
) -> Iterator[Finding]:
    """Rows against the ledger, chunk by chunk.

    The ID of a row covers its time, so rows with the same ID would lie in the same chunk.
    """
    row_counts: Counter[int] = Counter()  # by source unit
    duplicates: list[str] = []
    misplaced: list[str] = []
    for chunk in chunks:
        rows = table.read_accounted(["_id", "_unit", table.schema.time], chunk.id)
        row_counts.update(rows["_unit"].to_pylist())
        for row_id, count in Counter(rows["_id"].to_pylist()).items():
            if count > 1:
                duplicates.append(f"{row_id.hex()} in chunk {chunk.id}")
        for ts in _outside(chunk, micros_column(rows, table.schema.time)):
            time = from_micros(int(ts)).isoformat()
            misplaced.append(f"row of {time} in chunk {chunk.id}")
    problems = list(_compare_counts(ledger, row_counts))
    in_flight = sum(row_counts[unit.id] for unit in ledger if not unit.done)
    summary = f"{row_counts.total():,} rows"
    if in_flight:
        summary += f", {in_flight:,} of them in flight"
    yield Finding(f"{stream}: table and ledger agree, per source unit", problems, summary)
    yield Finding(f"{stream}: row IDs are unique", duplicates, f"{row_counts.total():,} IDs")
    yield Finding(
        f"{stream}: each row is in the chunk of its time", misplaced, f"{len(chunks)} chunks"
    )


def _check_appends(stream: str, table: StreamTable, counted: int | None) -> Finding:
    """`counted`: by the ledger, which counts an append after its commit; None: it is not known."""
    problems: list[str] = []
    if counted is not None and counted > table.append_count:
        problems.append(f"{counted:,} appends in the ledger, {table.append_count:,} in the table")
    check = f"{stream}: the table has all appends that the ledger counts"
    return Finding(check, problems, f"{table.append_count:,} appends")


def _outside(chunk: Chunk, ts: Any) -> Any:
    """Of an array of times, those that are not in the chunk's range."""
    return ts[~chunk.time_range.mask(ts)]


def _compare_counts(ledger: Sequence[LedgerRow], row_counts: Counter[int]) -> Iterator[str]:
    """Differences between the rows of the table and the ledger, by source unit.

    Rows of units that were compacted count for the unit they are merged into in the ledger.
    """
    unknown_units = row_counts.keys() - set(map(attrgetter("id"), ledger))
    compacted = next((unit for unit in ledger if not unit.unit), None)
    if compacted is not None:
        for number in unknown_units:
            row_counts[compacted.id] += row_counts.pop(number)
        unknown_units = set()
    for unit in ledger:
        stored = unit.archived - unit.deleted
        if unit.done and row_counts[unit.id] != stored:
            yield (
                f"{_unit_name(unit)}: ledger {stored} "
                f"({unit.archived} archived, {unit.deleted} deleted), table {row_counts[unit.id]}"
            )
    for number in unknown_units:
        yield f"{row_counts[number]} rows of source unit {number}, which is not in the ledger"


def _check_dead_letters(
    stream: str, connection: sql.Connection, ledger: Sequence[LedgerRow]
) -> Finding:
    """Each dead letter is stored, or was deleted after its retention period."""
    counts = DeadLetterGateway(connection).count_by_unit(stream)
    problems: list[str] = []
    for unit in ledger:
        count = counts.get(unit.id, 0)
        if unit.done and count != unit.dead_lettered:
            problems.append(
                f"{_unit_name(unit)}: {unit.dead_lettered} dead letters in the ledger, "
                f"{count} stored or deleted"
            )
    check = f"{stream}: all dead letters are stored"
    return Finding(check, problems, f"{sum(counts.values()):,} dead letters")


def _check_set_aside(connection: sql.Connection) -> Finding:
    """All input can be read, and all rules run."""
    problems: list[str] = []
    for subject in list_set_aside(connection):
        if subject["is_set_aside"]:
            problems.append(f"{describe_subject(subject)}: {subject['reason']}")
    return Finding("nothing is set aside", problems, "none")
