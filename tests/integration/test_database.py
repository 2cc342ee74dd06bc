"""The control plane: its schema, and processes that survive its server."""

import ctypes
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
import psycopg
import pytest
from psycopg import Connection
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier
from pydantic import SecretStr

import sql
import sql.connection
from moirae.config.settings import Settings
from moirae.errors import RoleLost, RoleTaken, Unreachable
from moirae.runtime import database, embedded_database
from moirae.runtime.roles import ReconnectingRole, Role
from moirae.runtime.supervisor import _forward_reload, _has_open_recalls
from sql.rules import RuleFileGateway
from tests.property.world import workspace

# Tables of the first published schema that have changed since.
OLD = """
CREATE TABLE units (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, stream text NOT NULL, unit text NOT NULL,
    done boolean NOT NULL DEFAULT false, newest timestamptz, read bigint NOT NULL DEFAULT 0,
    archived bigint NOT NULL DEFAULT 0, late bigint NOT NULL DEFAULT 0, duplicates bigint NOT NULL DEFAULT 0,
    malformed bigint NOT NULL DEFAULT 0, quarantined bigint NOT NULL DEFAULT 0, conflicts bigint NOT NULL DEFAULT 0,
    done_at timestamptz, UNIQUE (stream, unit)
);
CREATE TABLE dead_letters (
    unit_id bigint NOT NULL REFERENCES units (id) ON DELETE CASCADE, line bigint NOT NULL,
    reason text NOT NULL CHECK (reason IN ('malformed', 'quarantined', 'conflict')),
    detail text NOT NULL, raw bytea NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (unit_id, line)
);
CREATE TABLE chunks (
    id integer PRIMARY KEY, from_ts timestamptz, to_ts timestamptz,
    state text NOT NULL CHECK (state IN ('present', 'recent', 'old', 'expired')),
    closed_at timestamptz, clustered_at timestamptz,
    UNIQUE NULLS NOT DISTINCT (from_ts), UNIQUE NULLS NOT DISTINCT (to_ts), CHECK (from_ts < to_ts)
);
CREATE TABLE deployments (
    rule text NOT NULL, version text NOT NULL, settled_to timestamptz,
    state text NOT NULL CHECK (state IN ('running', 'quarantined', 'stopped')),
    failures integer NOT NULL DEFAULT 0, error text,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (rule, version)
);
CREATE TABLE tasks (
    id uuid PRIMARY KEY, eid uuid NOT NULL, rule text NOT NULL, version text NOT NULL, recall text NOT NULL,
    request jsonb NOT NULL, event jsonb NOT NULL,
    state text NOT NULL DEFAULT 'waiting'
        CHECK (state IN ('waiting', 'running', 'done', 'finalized', 'cancelled', 'failed')),
    level integer NOT NULL DEFAULT 0, tickets integer NOT NULL CHECK (tickets >= 1), pieces jsonb, corpus bigint,
    next integer NOT NULL DEFAULT 0, failed integer NOT NULL DEFAULT 0, held bytea,
    revision integer NOT NULL DEFAULT 0, rows bigint NOT NULL DEFAULT 0, seconds double precision NOT NULL DEFAULT 0,
    error text, tries integer NOT NULL DEFAULT 0, lease bigint, lease_until timestamptz,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(), started_at timestamptz, first_at timestamptz,
    ended_at timestamptz
);
CREATE INDEX tasks_open ON tasks (level, created_at, id) WHERE state IN ('waiting', 'running');
CREATE TABLE revisions (
    task uuid NOT NULL REFERENCES tasks (id) ON DELETE CASCADE, number integer NOT NULL, final boolean NOT NULL,
    coverage jsonb NOT NULL, answer jsonb NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (task, number)
);
CREATE TABLE commands (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    command text NOT NULL CHECK (command IN ('cancel', 'finalize', 'accelerate')),
    eid uuid NOT NULL, author text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp(),
    done_at timestamptz, effect text
);
CREATE INDEX commands_open ON commands (id) WHERE done_at IS NULL;
INSERT INTO units (stream, unit) VALUES ('cpu', 'a');
INSERT INTO tasks (id, eid, rule, version, recall, request, event, tickets)
    VALUES (gen_random_uuid(), gen_random_uuid(), 'g/A', '1', 'r', '{}', '{}', 1);
INSERT INTO commands (command, eid, author) VALUES ('cancel', '00000000-0000-0000-0000-000000000001', 'ada');
"""


@pytest.fixture(scope="module")
def settings(public_folder: Path) -> Settings:
    return workspace(public_folder).model_copy(update={"database": None})


@pytest.fixture(scope="module")
def fresh(settings: Settings) -> Iterator[Connection[Any]]:
    with database.connect_database(settings, "tests") as connection:
        yield connection


def _shape(connection: Connection[Any]) -> set[tuple[Any, ...]]:
    """Columns with their types and defaults, constraints and indexes, all by name."""
    rows: set[tuple[Any, ...]] = set()
    for statement in (
        "SELECT table_name, column_name, data_type, is_nullable, column_default FROM "
        "information_schema.columns "
        "WHERE table_schema = 'public'",
        "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint "
        "WHERE connamespace = 'public'::regnamespace",
        "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    ):
        rows.update(connection.execute(statement).fetchall())
    return rows


def test_first_schema_is_upgraded_to_the_current_one(
    settings: Settings, fresh: Connection[Any]
) -> None:
    fresh.execute("CREATE DATABASE old")
    dsn = make_conninfo(
        user=fresh.info.user,
        password=fresh.info.password,
        host=fresh.info.host,
        port=fresh.info.port,
        dbname="old",
    )
    with psycopg.connect(dsn) as old:
        old.execute(OLD)
    with database.connect_database(
        settings.model_copy(update={"database": SecretStr(dsn)}), "tests"
    ) as upgraded:
        assert _shape(upgraded) == _shape(fresh)
        upgraded.execute("UPDATE tasks SET state = 'suspended'")
        upgraded.execute("INSERT INTO dead_letters VALUES (1, 1, 'expired', '', '')")
        upgraded.execute(
            "INSERT INTO commands (key, command, target, author) VALUES ('k', 'refine', '{}', "
            "'ada')"
        )
        command = upgraded.execute(
            "SELECT command, target, author FROM commands WHERE id = 1"
        ).fetchone()
        assert command == ("cancel", {"eid": "00000000-0000-0000-0000-000000000001"}, "ada")


def test_connecting_waits_for_no_table_lock(settings: Settings, fresh: Connection[Any]) -> None:
    """Long transactions that lock tables do not delay connections."""
    # schema_migrations is written by migrations only.
    tables = fresh.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        " AND tablename <> 'schema_migrations'"
    ).fetchall()
    with fresh.transaction():
        for table in tables:
            fresh.execute(SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(Identifier(*table)))
        with database.connect_database(settings, "tests", "-c statement_timeout=5s") as other:
            assert other.execute("SHOW statement_timeout").fetchone() == ("5s",)


def test_connecting_to_an_unresponsive_server_times_out(settings: Settings) -> None:
    """It accepts connections, like a frozen server."""
    with (
        socket.create_server(("127.0.0.1", 0)) as frozen,
        patch.object(sql.connection, "CONNECT_TIMEOUT", 2),
    ):
        dsn = SecretStr(f"postgresql://somebody@127.0.0.1:{frozen.getsockname()[1]}/there")
        with pytest.raises(Unreachable, match="cannot connect to PostgreSQL"):
            database.connect_database(settings.model_copy(update={"database": dsn}), "tests")


def test_process_keeps_its_role_after_a_lost_connection(
    settings: Settings, fresh: Connection[Any]
) -> None:
    role = ReconnectingRole(partial(database.connect_database, settings, "tests"), "kept", 0.0)
    _end(fresh, role)
    for _ in range(2):
        role.heartbeat("running")  # the first finds the connection broken, the second makes another
    with pytest.raises(RoleTaken):
        Role(fresh, "kept", 0.0)
    _end(fresh, role)
    Role(fresh, "kept", 2.0)
    role.heartbeat("running")
    with pytest.raises(RoleLost):
        role.heartbeat("running")
    role.mark_ended()


def _request_reload(connection: Connection[Any]) -> None:
    RuleFileGateway(connection).request_reload()


def test_supervisor_waits_for_an_unavailable_database(
    settings: Settings, fresh: Connection[Any]
) -> None:
    role = ReconnectingRole(partial(database.connect_database, settings, "tests"), "up", 0.0)
    _end(fresh, role)
    reload = threading.Event()
    reload.set()
    _forward_reload(reload, _request_reload, role.connection)
    assert reload.is_set()
    assert _has_open_recalls(role.connection)
    role.heartbeat("running")
    _forward_reload(reload, _request_reload, role.connection)
    assert not reload.is_set()
    assert not _has_open_recalls(role.connection)
    assert fresh.execute("SELECT asked FROM rule_files").fetchone() == (1,)
    role.connection.close()


def test_crashed_embedded_server_is_restarted(settings: Settings, fresh: Connection[Any]) -> None:
    role = ReconnectingRole(partial(database.connect_database, settings, "tests"), "embedded", 0.0)
    _postmaster(settings).send_signal(signal.SIGQUIT)
    deadline = time.monotonic() + 60
    while not role.connection.closed:  # the first beats may find it still there, or going
        assert time.monotonic() < deadline
        role.heartbeat("running")
    while role.connection.closed:
        assert time.monotonic() < deadline
        role.heartbeat("running")
    with database.connect_database(settings, "tests") as other, pytest.raises(RoleTaken):
        Role(other, "embedded", 0.0)
    role.mark_ended()


@pytest.fixture
def foster_parent() -> Iterator[None]:
    """Orphans become children of this process, which reaps none of them: as where it is the first
    of a container.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(36, 1, 0, 0, 0) == 0  # PR_SET_CHILD_SUBREAPER
    yield
    assert libc.prctl(36, 0, 0, 0, 0) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="adopting orphans is Linux's")
def test_killed_unreaped_embedded_server_is_restarted(
    settings: Settings, foster_parent: None
) -> None:
    database.connect_database(settings, "tests").close()
    _postmaster(settings).send_signal(signal.SIGQUIT)
    psutil.wait_procs([_postmaster(settings)], 30)
    database.connect_database(settings, "tests").close()  # now it is ours
    killed = _postmaster(settings)
    killed.kill()
    deadline = time.monotonic() + 30
    while killed.status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    while True:
        try:
            database.connect_database(settings, "tests").close()
            break
        except Unreachable:  # its own processes have yet to end
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert killed.status() == psutil.STATUS_ZOMBIE
    assert _postmaster(settings) != killed
    os.waitpid(killed.pid, 0)


@pytest.mark.parametrize("is_own", [False, True])
def test_process_id_of_a_crashed_server_may_be_reused(tmp_path: Path, is_own: bool) -> None:
    """Files of another server beside the same socket are not removed."""
    lock, launcher_file = tmp_path / "postmaster.pid", tmp_path / ".s.PGSQL.5432.lock"
    lock.write_text(f"{os.getpid()}\n/data\n0\n5432\n{tmp_path}\n\n1 2\nready\n")
    launcher_file.write_text(f"{os.getpid() if is_own else 1}\n/data\n")
    embedded_database._remove_stale_pid_file(lock)
    assert not lock.exists()
    assert launcher_file.exists() == (not is_own)


def test_embedded_server_is_unreachable_until_it_has_started(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.connect_database(settings, "tests").close()
    monkeypatch.setattr(embedded_database, "_START_TIMEOUT", 1.0)
    file = _lock(settings)
    content = file.read_text()
    try:
        file.write_text("".join(content.splitlines(keepends=True)[:3]))
        with pytest.raises(Unreachable, match="did not start"):
            embedded_database.start_embedded_database(settings.home)
    finally:
        file.write_text(content)


def _postmaster(settings: Settings) -> psutil.Process:
    return psutil.Process(int(_lock(settings).read_text().splitlines()[0]))


def _lock(settings: Settings) -> Path:
    return settings.home / "postgresql" / "postmaster.pid"


def _end(connection: Connection[Any], role: ReconnectingRole) -> None:
    """End a role's connection at its server."""
    connection.execute("SELECT pg_terminate_backend(%s, 5000)", (role.connection.info.backend_pid,))
