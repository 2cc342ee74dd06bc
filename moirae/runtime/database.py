"""The workspace's PostgreSQL: a server by DSN, or one of its own that starts with the first process
to need it.
"""

import hashlib
from typing import Any

import orjson
import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL
from psycopg.types.json import set_json_loads

import sql
from moirae.config import Settings
from moirae.errors import Unreachable
from moirae.runtime import embedded_database

# Any number, the same in all processes: only one of them applies the schema at a time.
_SCHEMA_LOCK = 0x6D6F6972
# Seconds that a server may take to answer who connects, unless the DSN says: a frozen one never
# does.
_CONNECT_TIMEOUT = 10


def connect_database(settings: Settings, name: str, options: str = "") -> Connection[Any]:
    """A connection in autocommit, its session in UTC, the schema in place. `name` is what the
    server lists, `options` are more of the session's, as `-c statement_timeout=10s`. Raises
    `Unreachable`.
    """
    dsn = (
        settings.database.get_secret_value()
        if settings.database
        else embedded_database.start_embedded_database(settings.home)
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
        # PostgreSQL writes the number 1e20 with all its digits; as an integer of Python's it fits
        # nowhere else.
        set_json_loads(orjson.loads, connection)
        _apply_schema(connection)
    except psycopg.OperationalError as error:
        if connection is not None:
            connection.close()
        raise Unreachable(
            f"cannot reach PostgreSQL: {str(error).strip().splitlines()[0]}"
        ) from error
    return connection


def release(settings: Settings) -> None:
    """End this process's use of the embedded server, its connections being closed; the last user
    stops it.
    """
    if not settings.database:
        embedded_database.release_embedded_database(settings.home)


def _apply_schema(connection: Connection[Any]) -> None:
    """Only where another text was applied last: even a statement that changes nothing locks the
    table it names.
    """
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
