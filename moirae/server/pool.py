"""Database connections of the server, shared by its threads."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any

from psycopg import Connection, InterfaceError, OperationalError

from moirae.config import Settings
from moirae.errors import RequestRejected, Unreachable
from moirae.runtime import connect_database
from moirae.server.responses import DATABASE_RETRY, DATABASE_UNREACHABLE

_CONNECTION_OPTIONS = "-c statement_timeout=10s"


class ConnectionPool:
    """Connections in autocommit mode, each used by one thread at a time.

    A connection is opened if none is idle; the number of threads bounds their number.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._idle: SimpleQueue[Connection[Any]] = SimpleQueue()

    @contextmanager
    def connection(self) -> Iterator[Connection[Any]]:
        """Use a connection for the duration of a block.

        Raises `Unreachable` without a database, and `RequestRejected` if PostgreSQL cancels a
        statement (time limit or lock).
        """
        try:
            connection = self._idle.get_nowait()
        except Empty:
            connection = connect_database(self._settings, "server", _CONNECTION_OPTIONS)
        try:
            yield connection
        except (OperationalError, InterfaceError) as error:
            if not connection.closed:
                raise RequestRejected(503, "the database is busy", DATABASE_RETRY) from error
            self.close_idle()  # the idle connections have lost their server too
            raise Unreachable(DATABASE_UNREACHABLE) from error
        finally:
            if not connection.closed:
                self._idle.put(connection)

    def close_idle(self) -> None:
        """Close the connections that no thread uses."""
        with suppress(Empty):
            while True:
                self._idle.get_nowait().close()
