"""Relations from PostgreSQL tables: versions by event time, and unreachable databases."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from moirae.config.settings import Settings, load_settings_from_environment
from moirae.errors import MoiraeError
from moirae.inspect.health import list_problems
from moirae.inspect.status import collect_status
from moirae.live.relations import Relations
from moirae.runtime import database, embedded_database
from recall.query import sql_names
from tests.workspaces import workspace

WORKSPACE = """
home: .moirae
streams: {}
relations:
  hosts:
    columns: {host: string, site: string, cores: int, since: timestamp}
    key: [host]
    source: {table: inventory.hosts, database: DSN, every: 1ms}
"""
START = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def settings() -> Iterator[Settings]:
    with workspace("home: .moirae\n", "groups: []\n") as root:
        dsn = embedded_database.start_embedded_database(root / ".moirae")
        (root / "moirae.yaml").write_text(WORKSPACE.replace("DSN", f'"{dsn}"'))
        yield load_settings_from_environment(root / "moirae.yaml")


@pytest.fixture
def connection(settings: Settings) -> Iterator[Connection[Any]]:
    with database.connect_database(settings, "tests") as opened:
        opened.execute("CREATE SCHEMA inventory")
        opened.execute(
            "CREATE TABLE inventory.hosts (host text, site text, cores numeric, since timestamptz, other text)"
        )
        opened.execute(
            "INSERT INTO inventory.hosts VALUES ('a', 'cork', 4, '2025-01-01 00:00Z', 'x'), ('b', NULL, 8, NULL, NULL)"
        )
        yield opened
        opened.execute("DROP SCHEMA inventory CASCADE")
        opened.execute("DELETE FROM relation_versions")


def _versions(relations: Relations) -> list[tuple[Any, ...]]:
    rows = relations.table("hosts").to_pylist()
    return sorted(
        (r["host"], r["site"], r["cores"], r[sql_names.VALID_FROM].year, r[sql_names.VALID_TO].year)
        for r in rows
    )


def _await(relations: Relations) -> None:
    deadline = datetime.now(UTC) + timedelta(seconds=60)
    while not relations.changed_relations():
        assert datetime.now(UTC) < deadline


def test_changed_rows_become_versions_valid_from_now(
    settings: Settings, connection: Connection[Any]
) -> None:
    relations = Relations(connection, settings.relations)
    assert relations.changed_relations() == ["hosts"]
    relations.refresh("hosts", START)
    assert _versions(relations) == [("a", "cork", 4, 1, 9999), ("b", None, 8, 1, 9999)]
    assert relations.table("hosts")["since"].to_pylist() == [datetime(2025, 1, 1, tzinfo=UTC), None]
    with connection.transaction():
        connection.execute("UPDATE inventory.hosts SET site = 'lund' WHERE host = 'a'")
        connection.execute("DELETE FROM inventory.hosts WHERE host = 'b'")
    _await(relations)
    relations.refresh("hosts", START)
    assert _versions(relations) == [
        ("a", "cork", 4, 1, 2026),
        ("a", "lund", 4, 2026, 9999),
        ("b", None, 8, 1, 2026),
    ]
    connection.execute("UPDATE inventory.hosts SET other = 'y'")
    assert not relations.changed_relations()
    relations.stop()


@pytest.mark.parametrize(
    ("change", "mend", "reason"),
    [
        (
            "ALTER TABLE inventory.hosts RENAME TO gone",
            "ALTER TABLE inventory.gone RENAME TO hosts",
            "does not exist",
        ),
        (
            "UPDATE inventory.hosts SET host = 'a'",
            "UPDATE inventory.hosts SET host = cores::text",
            "duplicate host",
        ),
        (
            "UPDATE inventory.hosts SET cores = 1e12",
            "UPDATE inventory.hosts SET cores = 1",
            "is out of range for type int",
        ),
    ],
)
def test_unreadable_table_changes_nothing_and_is_reported_once(
    settings: Settings, connection: Connection[Any], change: str, mend: str, reason: str
) -> None:
    relations = Relations(connection, settings.relations)
    relations.changed_relations()
    relations.refresh("hosts", START)
    before = _versions(relations)
    connection.execute(change.encode())
    _await(relations)
    with pytest.raises(MoiraeError, match=reason):
        relations.refresh("hosts", START)
    assert _versions(relations) == before
    assert not relations.changed_relations()
    connection.execute(mend.encode())
    _await(relations)
    relations.refresh("hosts", START)
    relations.stop()


def test_status_reports_unreadable_table_until_it_is_read_again(
    settings: Settings, connection: Connection[Any]
) -> None:
    relations = Relations(connection, settings.relations)
    relations.changed_relations()
    relations.refresh("hosts", START)
    connection.execute("ALTER TABLE inventory.hosts RENAME TO gone")
    _await(relations)
    with pytest.raises(MoiraeError):
        relations.refresh("hosts", START)
    status = collect_status(connection, Path(settings.archive))
    (failed,) = status["relation_errors"]
    assert (
        failed["relation"] == "hosts"
        and "does not exist" in failed["error"]
        and failed["at"] <= datetime.now(UTC)
    )
    (problem,) = list_problems(status)
    assert problem.startswith(
        "relation hosts: its source cannot be read, the last version stays in use: "
    )
    assert "does not exist" in problem
    connection.execute("ALTER TABLE inventory.gone RENAME TO hosts")
    _await(relations)
    relations.refresh("hosts", START)
    assert collect_status(connection, Path(settings.archive))["relation_errors"] == []
    relations.stop()


def test_errors_of_undeclared_relations_are_deleted(
    settings: Settings, connection: Connection[Any]
) -> None:
    connection.execute(
        "INSERT INTO relation_errors (relation, error) VALUES ('gone', 'x'), ('hosts', 'y')"
    )
    Relations(connection, settings.relations).forget_undeclared()
    assert connection.execute("DELETE FROM relation_errors RETURNING relation").fetchall() == [
        ("hosts",)
    ]


def test_relation_without_rows_stays_loaded_when_its_table_fails(
    settings: Settings, connection: Connection[Any]
) -> None:
    connection.execute("DELETE FROM inventory.hosts")
    relations = Relations(connection, settings.relations)
    relations.changed_relations()
    assert not relations.is_loaded("hosts")
    relations.refresh("hosts", START)
    connection.execute("ALTER TABLE inventory.hosts RENAME TO gone")
    _await(relations)
    with pytest.raises(MoiraeError):
        relations.refresh("hosts", START)
    assert relations.is_loaded("hosts")
    relations.stop()


def test_unreachable_database_error_contains_no_password(settings: Settings) -> None:
    source = {
        "table": "hosts",
        "database": "postgresql://u:hush@127.0.0.1:1/x",
        "every": timedelta(hours=1),
    }
    declared = settings.relations["hosts"].model_copy(
        update={"source": type(settings.relations["hosts"].source).model_validate(source)}
    )
    with database.connect_database(settings, "tests") as connection:
        relations = Relations(connection, {"hosts": declared})
        assert relations.changed_relations() == ["hosts"]
        with pytest.raises(MoiraeError, match=r"127\.0\.0\.1") as raised:
            relations.refresh("hosts", START)
        relations.stop()
    assert "hush" not in str(raised.value)
