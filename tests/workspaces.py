"""Workspaces that tests of several kinds share.

Their databases are copies of an empty one, on one embedded server that a process of tests starts
once: a server for each workspace costs 40 times the processor time. Tests of processes that end or
of the embedded server itself use `tests.faults.harness.workspace`, which has its own server.
"""

import atexit
import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

import sql
from moirae.runtime.embedded_database import start_embedded_database

_TEMPLATE = "empty_workspace"
_NUMBERS = count()
_DATABASES: dict[Path, str] = {}
"""DSNs by folder of a workspace."""


def one_stream(rows: int, keep: str) -> str:
    """A stream in chunks of so many rows, of which old ones expire after a time."""
    return f"""
home: .moirae
streams:
  s:
    columns: {{ts: timestamp, n: bigint, host: string}}
    time: ts
    id: [n]
    key: [host]
    lateness: 0s
    source: {{files: landing/*.jsonl}}
chunks: {{rows: {rows}, age: 1d, recent: 2, keep: {keep}}}
rules: []
"""


@contextmanager
def workspace(settings: str, rules: str) -> Iterator[Path]:
    """A workspace in a folder of its own; the folder ends with it."""
    root = Path(tempfile.mkdtemp(prefix="moirae-test-"))
    root.chmod(0o755)
    write_workspace(root, settings)
    (root / "rules.yaml").write_text(rules)
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def write_workspace(folder: Path, settings: str) -> Path:
    """Write the workspace file; written again, the workspace keeps its database."""
    if folder not in _DATABASES:
        _DATABASES[folder] = create_database()
    file = folder / "moirae.yaml"
    file.write_text(f"{settings.rstrip()}\ndatabase: {json.dumps(_DATABASES[folder])}\n")
    return file


def create_database() -> str:
    """The DSN of an empty database of the present version."""
    server = _start_server()
    name = f"workspace_{next(_NUMBERS)}"
    server.execute(f"CREATE DATABASE {name} TEMPLATE {_TEMPLATE}".encode())
    return make_conninfo(server.info.dsn, dbname=name)


@cache
def _start_server() -> psycopg.Connection[Any]:
    """The server, with the template. It stops when this process has exited."""
    home = Path(tempfile.mkdtemp(prefix="moirae-test-"))
    home.chmod(0o755)
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    connection = psycopg.connect(start_embedded_database(home), autocommit=True)
    # Nothing on this server has to survive a crash.
    for setting in ("fsync", "full_page_writes", "synchronous_commit"):
        connection.execute(f"ALTER SYSTEM SET {setting} = off".encode())
    connection.execute("SELECT pg_reload_conf()")
    connection.execute(f"CREATE DATABASE {_TEMPLATE}".encode())
    template = make_conninfo(connection.info.dsn, dbname=_TEMPLATE)
    with sql.connect(template, application_name="tests") as migrating:
        sql.migrate(migrating)
    return connection
