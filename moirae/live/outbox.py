"""What the control plane has settled, into the archive: events and contexts, each exactly once.

The tables' own commits record the last number they hold: after a crash the next run goes on from there.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
from psycopg import Connection, sql
from psycopg.rows import dict_row

import sql as queries
from archiver.admission import column
from archiver.chunk import Chunk, locate
from archiver.table import NumberedTable

_IN_TURN = queries.load("contexts")["in_turn"]

# Rows in one commit.
_ROWS = 50_000

EVENTS = ("events", ("key", "attributes"))
CONTEXTS = ("contexts", ("contexts", "surroundings", "number"))


class Outbox:
    """What of one kind of rows is not archived yet. `query` yields them by number (`seq`), after one."""

    def __init__(
        self, connection: Connection[Any], root: Path, kind: tuple[str, tuple[str, ...]], query: sql.SQL
    ) -> None:
        self._connection = connection
        self._query = query
        self._columns = kind[1]
        self._table = NumberedTable(root, *kind)
        self._last = self._table.last()

    def flush(self, chunks: Sequence[Chunk]) -> int:
        """Archive all that is settled, in the chunks of its event time; returns how many rows."""
        count = 0
        while rows := self._next():
            table = self._arrow(rows)
            parts = pa.array(locate(chunks, column(table, "ts")), pa.int32())
            self._table.append(table.append_column("chunk", parts), rows[-1]["seq"])
            self._last = rows[-1]["seq"]
            count += len(rows)
        return count

    def _next(self) -> list[dict[str, Any]]:
        """The next rows. No process may be about to give a number below theirs: it would be passed over."""
        with self._connection.transaction(), self._connection.cursor(row_factory=dict_row) as cursor:
            cursor.execute(_IN_TURN)
            return cursor.execute(self._query, {"seq": self._last, "limit": _ROWS}).fetchall()

    def _arrow(self, rows: list[dict[str, Any]]) -> pa.Table:
        columns = {
            "ts": pa.array([row["ts"] for row in rows], pa.timestamp("us", tz="UTC")),
            **{name: [str(row[name]) for row in rows] for name in ("eid", "rule", "version")},
            **{name: [_text(row[name]) for row in rows] for name in self._columns},
        }
        return pa.table(columns)


def outboxes(connection: Connection[Any], root: Path) -> list[Outbox]:
    """Of all that is archived from the control plane."""
    return [
        Outbox(connection, root, EVENTS, queries.load("alerts")["settled_after"]),
        Outbox(connection, root, CONTEXTS, queries.load("contexts")["corpus_after"]),
    ]


def _text(value: Any) -> str:
    return orjson.dumps(value).decode()
