"""All migrations lead to the database of `schema.sql`; the runner applies each once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo
from psycopg.sql import SQL, Identifier

import sql
from sql.loader import read_text
from sql.migrate import MIGRATION_LOCK, migrations
from tests.waiting import wait_until
from tests.workspaces import create_database

_SHAPE = {
    "columns": (
        "SELECT table_name, column_name, data_type, udt_name, is_nullable, column_default,"
        " identity_generation FROM information_schema.columns WHERE table_schema = 'public'"
    ),
    "constraints": (
        "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE connamespace = 'public'::regnamespace"
    ),
    "indexes": "SELECT tablename, indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "sequences": "SELECT sequencename, start_value FROM pg_sequences WHERE schemaname = 'public'",
    "functions": (
        "SELECT proname, pg_get_functiondef(oid) FROM pg_proc"
        " WHERE pronamespace = 'public'::regnamespace"
    ),
    "views": (
        "SELECT schemaname, viewname, definition FROM pg_views"
        " WHERE schemaname IN ('public', 'dashboard')"
    ),
    "triggers": (
        "SELECT tgrelid::regclass::text, tgname, pg_get_triggerdef(oid) FROM pg_trigger"
        " WHERE NOT tgisinternal"
    ),
}


@pytest.fixture(scope="module")
def dsn() -> str:
    return create_database()


@contextmanager
def _database(dsn: str, name: str) -> Iterator[sql.Connection]:
    """An empty database of this name."""
    with sql.connect(dsn, application_name="tests") as connection:
        connection.execute(SQL("DROP DATABASE IF EXISTS {}").format(Identifier(name)))
        connection.execute(SQL("CREATE DATABASE {}").format(Identifier(name)))
    with sql.connect(make_conninfo(dsn, dbname=name), application_name="tests") as connection:
        yield connection


def _shape(connection: sql.Connection) -> dict[str, set[tuple[Any, ...]]]:
    return {kind: set(connection.execute(query).fetchall()) for kind, query in _SHAPE.items()}


def _contents(connection: sql.Connection) -> dict[str, list[tuple[Any, ...]]]:
    """The rows that a new database holds, without times and the id of the workspace."""
    tables = connection.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        " AND tablename NOT IN ('schema_migrations', 'workspace') ORDER BY 1"
    ).fetchall()
    return {
        table: connection.execute(SQL("SELECT * FROM {}").format(Identifier(table))).fetchall()
        for (table,) in tables
    }


def _applied(connection: sql.Connection) -> list[int]:
    rows = connection.execute("SELECT number FROM schema_migrations ORDER BY 1").fetchall()
    return [number for (number,) in rows]


def test_all_migrations_lead_to_the_same_database_as_the_schema(dsn: str) -> None:
    with _database(dsn, "migrated") as migrated, _database(dsn, "created") as created:
        for migration in migrations():
            migrated.execute(migration.statements)
        created.execute(SQL(read_text("schema.sql")))
        assert _shape(migrated) == _shape(created)
        assert _contents(migrated) == _contents(created)


def test_database_of_version_0_1_0_gets_what_it_lacks(dsn: str) -> None:
    with _database(dsn, "old") as old, _database(dsn, "new") as new:
        old.execute(migrations()[0].statements)
        old.execute("INSERT INTO streams VALUES ('cpu', '2026-01-01 00:00:00+00', NULL)")
        sql.migrate(old)
        sql.migrate(new)
        assert _shape(old) == _shape(new)
        assert _applied(old) == _applied(new) == [migration.number for migration in migrations()]
        assert old.execute("SELECT name FROM streams").fetchall() == [("cpu",)]


def test_database_that_lacks_a_migration_before_the_last_gets_it(dsn: str) -> None:
    *_, skipped, last = migrations()
    with _database(dsn, "gap") as gap, _database(dsn, "whole") as whole:
        for migration in migrations():
            if migration != skipped:
                gap.execute(migration.statements)
        gap.execute(
            "CREATE TABLE schema_migrations (number integer PRIMARY KEY, name text NOT NULL,"
            " applied_at timestamptz NOT NULL DEFAULT clock_timestamp())"
        )
        for migration in migrations():
            if migration != skipped:
                gap.execute(
                    "INSERT INTO schema_migrations (number, name) VALUES (%s, %s)",
                    (migration.number, migration.name),
                )
        sql.migrate(gap)
        sql.migrate(whole)
        assert _applied(gap) == _applied(whole)
        assert skipped.number in _applied(gap)
        assert last.number in _applied(gap)


def test_failed_migration_leaves_the_database_as_it_was(dsn: str) -> None:
    with _database(dsn, "broken") as connection:
        connection.execute(migrations()[0].statements)
        connection.execute("DROP TABLE revisions")  # which the second migration needs
        before = _shape(connection)
        connection.execute("CREATE VIEW of_an_operator AS SELECT * FROM schema_version")
        with pytest.raises(sql.DatabaseError):
            sql.migrate(connection)
        connection.execute("DROP VIEW of_an_operator")
        assert _shape(connection) == before


def test_processes_that_connect_at_once_migrate_once(dsn: str) -> None:
    with _database(dsn, "shared") as connection:
        address = make_conninfo(dsn, dbname="shared")

        def migrate(_: int) -> None:
            with sql.connect(address, application_name="tests") as other:
                sql.migrate(other)

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(migrate, range(8)))
        assert _applied(connection) == [migration.number for migration in migrations()]


def test_process_that_waited_for_another_migrates_nothing(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # After the thousands of changes of the real schema PostgreSQL tells the session that waits to
    # renew its cache of the catalog; after few, the cache still says that there is no table.
    small_schema = "CREATE TABLE IF NOT EXISTS units ()"
    monkeypatch.setattr(import_module("sql.migrate"), "read_text", lambda *_: small_schema)
    with _database(dsn, "waited") as connection, ThreadPoolExecutor(1) as thread:
        address = make_conninfo(dsn, dbname="waited")

        def migrate() -> None:
            with sql.connect(address, application_name="tests") as other:
                sql.migrate(other)

        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
            waiting = thread.submit(migrate)
            wait_until(
                lambda: (
                    connection.execute(
                        "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                    ).rowcount
                    == 1
                )
            )
            sql.migrate(connection)
        waiting.result()
        assert _applied(connection) == [migration.number for migration in migrations()]


def test_database_of_a_newer_version_is_refused(dsn: str) -> None:
    with _database(dsn, "newer") as connection:
        sql.migrate(connection)
        connection.execute("INSERT INTO schema_migrations VALUES (9999, 'unknown')")
        with pytest.raises(sql.SchemaTooNew, match="migration 9999"):
            sql.migrate(connection)
        with pytest.raises(sql.SchemaTooNew, match="update Moirae"):
            sql.migrate(connection)
