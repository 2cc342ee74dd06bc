"""What the control plane has settled, into the archive: events and contexts, each exactly once.

The tables' own commits record the last number they hold: after a crash the next run goes on from there. Rows wait in
PostgreSQL until there are enough of them for a file, or their chunk is closed.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
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

# Rows in one commit.
_BATCH_ROWS = 50_000


class Outbox:
    """What of one kind of rows is not archived yet. `last`: the number up to which they are."""

    def __init__(self, connection: Connection[Any], storage: StorageRoot, kind: TableSpec) -> None:
        self._connection = connection
        name, self._columns = kind
        self._rows_query, self._pending_query = (
            _QUERIES[f"{name}_after"],
            _QUERIES[f"{name}_waiting"],
        )
        self._table = SequencedTable(storage, kind)
        self.last_sequence = self._table.last_number()
        self._flushed_at = -math.inf

    def flush_if_due(self, chunks: Sequence[Chunk], now: float) -> None:
        """Archive what is settled when that makes good files. `now`: seconds of a clock that goes on."""
        ends = [
            chunk.to_ts for chunk in chunks if chunk.state != "present" and chunk.to_ts is not None
        ]
        closed = from_micros(max(ends)) if ends else None
        values = {"seq": self.last_sequence, "limit": COMMIT_ROWS, "closed": closed}
        row = self._connection.execute(self._pending_query, values).fetchone()
        assert row is not None
        waiting, of_closed = row
        if should_commit(waiting, of_closed, now - self._flushed_at):
            self._flushed_at = now
            self.flush(chunks)

    def flush(self, chunks: Sequence[Chunk]) -> None:
        """Archive all that is settled, in the chunks of its event time."""
        while rows := self._fetch_rows():
            table = self._to_arrow(rows)
            parts = pa.array(locate(chunks, micros_column(table, "ts")), pa.int32())
            with suppress(
                CommitConflict
            ):  # a process that this one has replaced was just committing
                self._table.append(
                    table.append_column("chunk", parts), self.last_sequence, rows[-1]["seq"]
                )
            self.last_sequence = self._table.last_number()

    def _fetch_rows(self) -> list[dict[str, Any]]:
        """The next rows. No process may be about to give a number below theirs: it would be passed over."""
        with (
            self._connection.transaction(),
            self._connection.cursor(row_factory=dict_row) as cursor,
        ):
            cursor.execute(_NUMBERING_LOCK_QUERY)
            return cursor.execute(
                self._rows_query, {"seq": self.last_sequence, "limit": _BATCH_ROWS}
            ).fetchall()

    def _to_arrow(self, rows: list[dict[str, Any]]) -> pa.Table:
        columns = {
            "ts": pa.array([row["ts"] for row in rows], pa.timestamp("us", tz="UTC")),
            **{name: [str(row[name]) for row in rows] for name in ("eid", "rule", "version")},
            **{name: [_to_json(row[name]) for row in rows] for name in self._columns},
        }
        return pa.table(columns)


def open_outboxes(connection: Connection[Any], storage: StorageRoot) -> dict[str, Outbox]:
    """Of all that is archived from the control plane, by name."""
    return {kind[0]: Outbox(connection, storage, kind) for kind in (EVENTS, CONTEXTS)}


def _to_json(value: Any) -> str:
    return orjson.dumps(value).decode()
