"""Tables of a user's own PostgreSQL database from which relations are read."""

from collections.abc import Sequence

import psycopg
from psycopg.sql import SQL, Identifier, Literal

_CONNECT_TIMEOUT = 5  # seconds
_CONNECTION_OPTIONS = "-c statement_timeout=10s -c default_transaction_read_only=on -c timezone=UTC"
_SELECT = SQL("SELECT to_jsonb(r)::text FROM (SELECT {} FROM {} LIMIT {}) r")


def read_source_table(dsn: str, *, table: str, columns: Sequence[str], limit: int) -> list[bytes]:
    """Up to `limit` rows of a table, or of a view, as JSON objects, in no particular order.

    `table` may be qualified by a schema. Raises `DatabaseError`.
    """
    column_list = SQL(", ").join(map(Identifier, columns))
    statement = _SELECT.format(column_list, Identifier(*table.split(".")), Literal(limit))
    with psycopg.connect(
        dsn, connect_timeout=_CONNECT_TIMEOUT, options=_CONNECTION_OPTIONS, autocommit=True
    ) as connection:
        return [text.encode() for (text,) in connection.execute(statement)]
