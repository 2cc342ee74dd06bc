"""Settled events from PostgreSQL into the archive's event table, each exactly once.

The table's own commits record the last sequence number they hold: after a crash the next run goes on from there.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from psycopg import Connection
from psycopg.rows import dict_row

import sql
from archiver.admission import column
from archiver.chunk import Chunk, locate
from archiver.table import EventTable

_QUERY = sql.load("alerts")["settled_after"]

# Events in one commit.
_ROWS = 50_000


class Outbox:
    """What of the settled events is not archived yet."""

    def __init__(self, connection: Connection[Any], root: Path) -> None:
        self._connection = connection
        self._table = EventTable(root)
        self._last = self._table.last()

    def flush(self, chunks: Sequence[Chunk]) -> int:
        """Archive all settled events in the chunks of their event time; returns how many."""
        count = 0
        while rows := self._next():
            table = _arrow(rows)
            parts = pa.array(locate(chunks, column(table, "ts")), pa.int32())
            self._table.append(table.append_column("chunk", parts), rows[-1]["seq"])
            self._last = rows[-1]["seq"]
            count += len(rows)
        return count

    def _next(self) -> list[dict[str, Any]]:
        with self._connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(_QUERY, {"seq": self._last, "limit": _ROWS}).fetchall()


def _arrow(rows: list[dict[str, Any]]) -> pa.Table:
    columns = {
        "ts": pa.array([row["ts"] for row in rows], pa.timestamp("us", tz="UTC")),
        **{name: [str(row[name]) for row in rows] for name in ("eid", "rule", "version")},
        **{name: [orjson.dumps(row[name]).decode() for row in rows] for name in ("key", "attributes")},
    }
    return pa.table(columns)
