"""Connections to the PostgreSQL of a workspace: an external server or the embedded one."""

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

# Key of the advisory lock under which one process at a time applies the schema: any fixed number.
_SCHEMA_LOCK = 0x6D6F6972
# Seconds to connect, unless the DSN has `connect_timeout`: a frozen server never answers.
_CONNECT_TIMEOUT = 10


def connect_database(settings: Settings, name: str, options: str = "") -> Connection[Any]:
    """Connect in autocommit mode with the time zone UTC, and apply the schema if it changed.

    `name` identifies the connection in `pg_stat_activity`. `options` are further session options,
    such as `-c statement_timeout=10s`. Raises `Unreachable`.
    """
    if settings.database:
        dsn = settings.database.get_secret_value()
    else:
        dsn = embedded_database.start_embedded_database(settings.home)
    connection = None
    try:
        timeout = int(conninfo_to_dict(dsn).get("connect_timeout") or _CONNECT_TIMEOUT)
        connection = psycopg.connect(
            dsn,
            autocommit=True,
            connect_timeout=timeout,
            application_name=f"moirae {name}",
            options=f"-c timezone=UTC {options}",
        )
        # PostgreSQL prints 1e20 in jsonb with all its digits. orjson reads it as a float; the
        # json module would return an integer that no other part can store.
        set_json_loads(orjson.loads, connection)
        _apply_schema(connection)
    except psycopg.OperationalError as error:
        if connection is not None:
            connection.close()
        reason = str(error).strip().splitlines()[0]
        raise Unreachable(f"cannot connect to PostgreSQL: {reason}") from error
    return connection


def release_database(settings: Settings) -> None:
    """Release the embedded server, if the workspace uses it; the last user stops it.

    The connections of this process must be closed.
    """
    if not settings.database:
        embedded_database.release_embedded_database(settings.home)


def _apply_schema(connection: Connection[Any]) -> None:
    """Apply the schema unless this version of its text was applied last.

    Statements without effect, such as CREATE TABLE IF NOT EXISTS, still lock their tables.
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
    """The SHA-256 of the schema that was applied last; None for an empty database."""
    row = connection.execute(
        "SELECT obj_description(to_regclass('schema_version'), 'pg_class')"
    ).fetchone()
    assert row is not None
    digest: str | None = row[0]
    return digest
