"""The PostgreSQL of a workspace: an external server or the embedded one."""

from functools import partial

import sql
from archiver.clock import SHARED_CLOCK
from moirae.config import Settings
from moirae.errors import MoiraeError, Unreachable, first_line
from moirae.runtime import embedded_database
from moirae.runtime.storage import check_restored
from sql.workspace import WorkspaceGateway


def connect_database(settings: Settings, name: str, options: str = "") -> sql.Connection:
    """Connect in autocommit mode with the time zone UTC, and migrate the database if needed.

    The shared clock follows that of the server, unless it is the embedded one, on this machine.
    `name` identifies the connection in `pg_stat_activity`. `options` are further session options,
    such as `-c statement_timeout=10s`. Raises `Unreachable`, and `MoiraeError` if a newer version
    has used the database, or `moirae upgrade` has to run first.
    """
    check_restored(settings.home)
    dsn = database_dsn(settings)
    try:
        connection = sql.connect(dsn, application_name=f"moirae {name}", options=options)
        try:
            sql.migrate(connection)
            if settings.database:
                SHARED_CLOCK.follow(WorkspaceGateway(connection).get_clock)
        except BaseException:
            connection.close()
            raise
    except sql.OperationalError as error:
        if not sql.is_connection_failure(error):
            raise  # a statement of the migration failed, as with a full disk
        raise Unreachable(f"cannot connect to PostgreSQL: {first_line(error)}") from error
    except (sql.SchemaTooNew, sql.UpgradeRequired) as error:
        raise MoiraeError(str(error)) from error
    return connection


def open_database_pool(
    settings: Settings, name: str, *, max_size: int, timeout: float, options: str = ""
) -> sql.ConnectionPool:
    """Open a pool of connections as those of `connect_database`: see `sql.open_pool`."""
    return sql.open_pool(
        partial(database_dsn, settings),
        application_name=f"moirae {name}",
        max_size=max_size,
        timeout=timeout,
        options=options,
    )


def database_dsn(settings: Settings) -> str:
    """The DSN of the workspace's server; starts the embedded one if it does not run.

    Raises `Unreachable`.
    """
    if settings.database:
        return settings.database.get_secret_value()
    return embedded_database.start_embedded_database(settings.home)


def is_database_running(settings: Settings) -> bool:
    """Whether a connection starts no server: the embedded one runs, or another one is declared."""
    return bool(settings.database) or embedded_database.is_embedded_database_running(settings.home)


def release_database(settings: Settings) -> None:
    """Release the embedded server, if the workspace uses it; the last user stops it.

    The connections of this process must be closed.
    """
    if not settings.database:
        embedded_database.release_embedded_database(settings.home)
