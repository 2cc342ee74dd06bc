"""Advisory locks for tasks that only one of several recall processes may do."""

from collections.abc import Iterator
from contextlib import contextmanager

import sql
from sql.rules import ViewGateway


@contextmanager
def try_lock(connection: sql.Connection, *names: str | int) -> Iterator[bool]:
    """Try to take the advisory lock of a name. Yields whether it was obtained.

    The lock is released at the end of the block or of the connection.
    """
    gateway = ViewGateway(connection)
    name = " ".join(map(str, names))
    is_locked = gateway.try_lock(name)
    try:
        yield is_locked
    finally:
        if is_locked:
            gateway.unlock(name)
