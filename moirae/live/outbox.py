"""The outbox: settled events and contexts go from PostgreSQL to the archive, each exactly once.

The commits of the Delta tables record the last sequence number they contain, so that a run after a
crash continues from it. Rows remain in PostgreSQL until there are enough of them for a file, or
their chunk is closed.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any

import orjson
import pyarrow as pa

import sql
from archiver.chunks import Chunk, locate
from archiver.delta.sequenced_table import (
    COMMIT_ROWS,
    CONTEXTS,
    EVENTS,
    SequencedTable,
    TableSpec,
    should_commit,
)
from archiver.errors import CommitConflict
from archiver.ingest import ArchiveWriter
from archiver.storage import StorageRoot
from archiver.times import from_micros, micros_column
from sql.events import OutboxContextRow, OutboxEventRow, OutboxGateway
from sql.similarity import CorpusGateway

_BATCH_ROWS = 50_000  # rows in one commit
# The tables that are archived from PostgreSQL, by name.
_SPECS = {spec.name: spec for spec in (EVENTS, CONTEXTS)}

_Row = OutboxEventRow | OutboxContextRow


class Outbox:
    """The rows of one table that are not archived yet.

    `last_sequence`: the sequence number up to which rows are archived.
    """

    def __init__(self, connection: sql.Connection, storage: StorageRoot, spec: TableSpec) -> None:
        self._connection = connection
        name, self._columns = spec
        self._corpora = CorpusGateway(connection)
        gateway = OutboxGateway(connection)
        self._list_rows: Callable[[int, int], Sequence[_Row]] = gateway.list_events
        self._count_pending = gateway.count_events
        if name == CONTEXTS.name:
            self._list_rows = gateway.list_contexts
            self._count_pending = gateway.count_contexts
        self._table = SequencedTable(storage, spec)
        self.last_sequence = self._table.last_number()
        self._flushed_at = -math.inf

    def flush_if_due(self, chunks: Sequence[Chunk], now: float) -> None:
        """Archive the settled rows once they are worth a commit (see `should_commit`).

        `now`: seconds of a monotonic clock.
        """
        closed = None  # the end of the newest closed chunk
        closed_chunks = [chunk for chunk in chunks if chunk.state != "present"]
        ends = [chunk.to_ts for chunk in closed_chunks if chunk.to_ts is not None]
        if ends:
            closed = from_micros(max(ends))
        counts = self._count_pending(self.last_sequence, COMMIT_ROWS, closed)
        if should_commit(counts.pending, counts.has_closed, now - self._flushed_at):
            self._flushed_at = now
            self.flush(chunks)

    def flush(self, chunks: Sequence[Chunk]) -> None:
        """Archive all settled rows, each in the chunk of its event time."""
        while rows := self._fetch_rows():
            table = self._to_arrow(rows)
            chunk_ids = pa.array(locate(chunks, micros_column(table, "ts")), pa.int32())
            table = table.append_column("chunk", chunk_ids)
            # A conflict: the process that this one has replaced was committing the same rows.
            with suppress(CommitConflict):
                self._table.append(table, self.last_sequence, rows[-1].seq)
            self.last_sequence = self._table.last_number()

    def _fetch_rows(self) -> Sequence[_Row]:
        """The next rows, by sequence number.

        Holds the numbering lock: a transaction that commits a lower number later would be skipped.
        """
        with self._connection.transaction():
            self._corpora.lock_numbering()
            return self._list_rows(self.last_sequence, _BATCH_ROWS)

    def _to_arrow(self, rows: Sequence[_Row]) -> pa.Table:
        timestamps = list(map(attrgetter("ts"), rows))
        columns = {"ts": pa.array(timestamps, pa.timestamp("us", tz="UTC"))}
        for name in ("eid", "rule", "version"):
            columns[name] = list(map(str, map(attrgetter(name), rows)))
        for name in self._columns:
            columns[name] = list(map(_to_json, map(attrgetter(name), rows)))
        return pa.table(columns)


class ArchivedTables:
    """The tables that are archived from PostgreSQL, each by its outbox."""

    def __init__(self, outboxes: Mapping[str, Outbox], archive: ArchiveWriter) -> None:
        self._outboxes = outboxes
        self._archive = archive

    def flush_if_due(self) -> None:
        """Archive the settled rows of the tables where they are worth a commit."""
        now = time.monotonic()
        for outbox in self._outboxes.values():
            outbox.flush_if_due(self._archive.chunks, now)

    def flush(self) -> None:
        """Archive all settled rows."""
        for outbox in self._outboxes.values():
            outbox.flush(self._archive.chunks)


def open_outboxes(connection: sql.Connection, storage: StorageRoot) -> dict[str, Outbox]:
    """The outboxes of all tables that are archived from PostgreSQL, by table name."""
    return {name: open_outbox(connection, storage, name) for name in _SPECS}


def open_outbox(connection: sql.Connection, storage: StorageRoot, table: str) -> Outbox:
    """The outbox of one of these tables; the others may be damaged."""
    return Outbox(connection, storage, _SPECS[table])


def _to_json(value: Any) -> str:
    return orjson.dumps(value).decode()
