"""Advisory locks for tasks that only one of several recall processes may do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from psycopg import Connection

import sql

_QUERIES = sql.load("views")


@contextmanager
def try_lock(connection: Connection[Any], *names: str | int) -> Iterator[bool]:
    """Try to take the advisory lock of a name. Yields whether it was obtained.

    The lock is released at the end of the block or of the connection.
    """
    values = {"name": " ".join(map(str, names))}
    row = connection.execute(_QUERIES["claim"], values).fetchone()
    is_locked = row is not None and bool(row[0])
    try:
        yield is_locked
    finally:
        if is_locked:
            connection.execute(_QUERIES["release"], values)
