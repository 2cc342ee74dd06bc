"""What several recall processes would do at the same time is done by one of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from psycopg import Connection

import sql

_QUERIES = sql.load("views")


@contextmanager
def try_lock(connection: Connection[Any], *names: str | int) -> Iterator[bool]:
    """Whether what is so named is for this connection to do: until the end, or the connection's, no other does it."""
    values = {"name": " ".join(map(str, names))}
    row = connection.execute(_QUERIES["claim"], values).fetchone()
    mine = row is not None and bool(row[0])
    try:
        yield mine
    finally:
        if mine:
            connection.execute(_QUERIES["release"], values)
