"""Connections to PostgreSQL."""

from typing import Any

import orjson
import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg.types.json import set_json_loads

# A connection in autocommit mode whose rows are tuples.
Connection = psycopg.Connection[Any]

# Seconds to connect, unless the DSN has `connect_timeout`: a frozen server never answers.
CONNECT_TIMEOUT = 10


def connect(dsn: str, *, application_name: str, options: str = "") -> Connection:
    """Connect in autocommit mode with the time zone UTC.

    `application_name` identifies the connection in `pg_stat_activity`. `options` are further
    session options, such as `-c statement_timeout=10s`. Raises `OperationalError`.
    """
    connection = psycopg.connect(
        dsn,
        autocommit=True,
        connect_timeout=connect_timeout(dsn),
        application_name=application_name,
        options=session_options(options),
    )
    configure(connection)
    return connection


def session_options(options: str = "") -> str:
    """The options of every session, and further ones."""
    return f"-c timezone=UTC {options}"


def connect_timeout(dsn: str) -> int:
    """Seconds to wait for a server: of the DSN, or the default."""
    return int(conninfo_to_dict(dsn).get("connect_timeout") or CONNECT_TIMEOUT)


def configure(connection: Connection) -> None:
    """Read jsonb by orjson.

    PostgreSQL prints 1e20 in jsonb with all its digits. orjson reads it as a float; the json module
    would return an integer that no other part can store.
    """
    set_json_loads(orjson.loads, connection)
