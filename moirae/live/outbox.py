"""The outbox: settled events and contexts go from PostgreSQL to the archive, each exactly once.

The commits of the Delta tables record the last sequence number they contain, so that a run after a
crash continues from it. Rows remain in PostgreSQL until there are enough of them for a file, or
their chunk is closed.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any

import orjson
import pyarrow as pa
from psycopg import Connection
from psycopg.rows import dict_row

import sql
from archiver.chunks import Chunk, locate
from archiver.delta import COMMIT_ROWS, CONTEXTS, EVENTS, SequencedTable, TableSpec, should_commit
from archiver.errors import CommitConflict
from archiver.storage import StorageRoot
from archiver.times import from_micros, micros_column

_QUERIES = sql.load("outbox")
_NUMBERING_LOCK_QUERY = sql.load("contexts")["in_turn"]

_BATCH_ROWS = 50_000  # rows in one commit


class Outbox:
    """The rows of one table that are not archived yet.

    `last_sequence`: the sequence number up to which rows are archived.
    """

    def __init__(self, connection: Connection[Any], storage: StorageRoot, spec: TableSpec) -> None:
        self._connection = connection
        name, self._columns = spec
        self._rows_query = _QUERIES[f"{name}_after"]
        self._pending_query = _QUERIES[f"{name}_waiting"]
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
        values = {"seq": self.last_sequence, "limit": COMMIT_ROWS, "closed": closed}
        row = self._connection.execute(self._pending_query, values).fetchone()
        assert row is not None
        pending_count, has_closed = row
        if should_commit(pending_count, has_closed, now - self._flushed_at):
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
                self._table.append(table, self.last_sequence, rows[-1]["seq"])
            self.last_sequence = self._table.last_number()

    def _fetch_rows(self) -> list[dict[str, Any]]:
        """The next rows, by sequence number.

        Holds the numbering lock: a transaction that commits a lower number later would be skipped.
        """
        with (
            self._connection.transaction(),
            self._connection.cursor(row_factory=dict_row) as cursor,
        ):
            cursor.execute(_NUMBERING_LOCK_QUERY)
            values = {"seq": self.last_sequence, "limit": _BATCH_ROWS}
            return cursor.execute(self._rows_query, values).fetchall()

    def _to_arrow(self, rows: list[dict[str, Any]]) -> pa.Table:
        timestamps = list(map(itemgetter("ts"), rows))
        columns = {"ts": pa.array(timestamps, pa.timestamp("us", tz="UTC"))}
        for name in ("eid", "rule", "version"):
            columns[name] = list(map(str, map(itemgetter(name), rows)))
        for name in self._columns:
            columns[name] = list(map(_to_json, map(itemgetter(name), rows)))
        return pa.table(columns)


def open_outboxes(connection: Connection[Any], storage: StorageRoot) -> dict[str, Outbox]:
    """The outboxes of all tables that are archived from PostgreSQL, by table name."""
    return {spec[0]: Outbox(connection, storage, spec) for spec in (EVENTS, CONTEXTS)}


def _to_json(value: Any) -> str:
    return orjson.dumps(value).decode()
