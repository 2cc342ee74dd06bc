"""A pool of connections for the threads of a process."""

import logging
from collections.abc import Callable

from psycopg.conninfo import make_conninfo
from psycopg_pool import ConnectionPool as PsycopgPool

from sql.connection import Connection, configure, connect_timeout, session_options
from sql.errors import DatabaseError
from sql.migrate import migrate

ConnectionPool = PsycopgPool[Connection]

# The pool logs each failed attempt to connect in a format of its own; callers get the error.
logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)


def open_pool(
    find_dsn: Callable[[], str],
    *,
    application_name: str,
    max_size: int,
    timeout: float,
    options: str = "",
) -> ConnectionPool:
    """Open a pool whose connections are as those of `connect`, to a migrated database.

    `find_dsn` is called for each new connection: a server may have moved since. `timeout`: seconds
    to wait for a connection; then `getconn` raises `OperationalError`, and connecting is tried
    again only for the next caller. There are as many connections as are used at once; those that
    are idle for minutes are closed. If one was lost, all idle ones are replaced.
    """

    def find_conninfo() -> str:
        dsn = find_dsn()
        return make_conninfo(dsn, connect_timeout=connect_timeout(dsn))

    def configure_migrated(connection: Connection) -> None:
        configure(connection)
        migrate(connection)

    def check(connection: Connection) -> None:
        try:
            PsycopgPool.check_connection(connection)
        except DatabaseError:
            pool.drain()  # a server that ended has closed the other connections too
            raise

    pool: ConnectionPool = PsycopgPool(
        find_conninfo,
        kwargs={
            "autocommit": True,
            "application_name": application_name,
            "options": session_options(options),
        },
        min_size=0,
        max_size=max_size,
        configure=configure_migrated,
        check=check,
        timeout=timeout,
        reconnect_timeout=timeout,
        open=True,
    )
    return pool
