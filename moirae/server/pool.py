"""Database connections of the server, shared by its threads."""

from collections.abc import Iterator
from contextlib import contextmanager

import sql
from moirae.config import Settings
from moirae.errors import RequestRejected, Unreachable
from moirae.runtime import open_database_pool
from moirae.server.responses import DATABASE_RETRY, DATABASE_UNREACHABLE
from moirae.services import problems

# A thread uses one connection at a time: the threads of a request, and the main thread.
_MAX_CONNECTIONS = 41
# Seconds to wait for a connection: less than a client waits for an answer.
_CONNECT_TIMEOUT = 3.0
_CLOSE_TIMEOUT = 1.0  # seconds for an attempt to connect to end
_CONNECTION_OPTIONS = "-c statement_timeout=10s"


class ConnectionPool:
    """Connections in autocommit mode, each used by one thread at a time."""

    def __init__(self, settings: Settings) -> None:
        self._pool = open_database_pool(
            settings,
            "server",
            max_size=_MAX_CONNECTIONS,
            timeout=_CONNECT_TIMEOUT,
            options=_CONNECTION_OPTIONS,
        )

    @contextmanager
    def connection(self) -> Iterator[sql.Connection]:
        """Use a connection for the duration of a block.

        Raises `Unreachable` without a database, and `RequestRejected` if PostgreSQL ends a
        statement, as at a time limit, for a lock or with a full disk.
        """
        try:
            connection = self._pool.getconn()
        except sql.OperationalError as error:
            raise Unreachable(DATABASE_UNREACHABLE) from error
        try:
            yield connection
        except (sql.OperationalError, sql.InterfaceError) as error:
            if not connection.closed:
                raise RequestRejected(503, _describe(error), DATABASE_RETRY) from error
            self._pool.drain()  # the idle connections have lost their server too
            raise Unreachable(DATABASE_UNREACHABLE) from error
        finally:
            self._pool.putconn(connection)

    def close(self) -> None:
        """Close the connections; those in use when they are returned."""
        self._pool.close(_CLOSE_TIMEOUT)


def _describe(error: sql.OperationalError | sql.InterfaceError) -> str:
    return str(problems.explain_error(error))
