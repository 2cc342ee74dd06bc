"""The server's database connections: a few, shared by its threads; what is away is told as such."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any

from psycopg import Connection, InterfaceError, OperationalError

from moirae.config import Settings
from moirae.errors import RequestRejected, Unreachable
from moirae.runtime import connect_database


class ConnectionPool:
    """Lends a connection to one thread at a time; as many are open as were ever needed at once."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._idle: SimpleQueue[Connection[Any]] = SimpleQueue()

    @contextmanager
    def connection(self) -> Iterator[Connection[Any]]:
        """A connection in autocommit. Raises `Unreachable` where PostgreSQL is away, `Refused`
        where it gives up a statement: it took too long, or a lock was not to be had.
        """
        try:
            connection = self._idle.get_nowait()
        except Empty:
            connection = connect_database(self._settings, "server", "-c statement_timeout=10s")
        try:
            yield connection
        except (OperationalError, InterfaceError) as error:
            if not connection.closed:
                raise RequestRejected(503, "the database is busy", 5) from error
            self.close_idle()  # the others have lost their server too
            raise Unreachable("PostgreSQL is away") from error
        finally:
            if not connection.closed:
                self._idle.put(connection)

    def close_idle(self) -> None:
        """End those that nobody uses."""
        with suppress(Empty):
            while True:
                self._idle.get_nowait().close()
