"""Columns of relations change: stored rows are converted, or the change is refused."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from psycopg import Connection

from moirae.config.settings import Settings, load_settings
from moirae.errors import MoiraeError, ProblemsError
from moirae.live.relations import Relations
from moirae.runtime import check_relations, connect_database, update_relations
from moirae.runtime.relation_declarations import convert
from sql.archive import RelationGateway
from tests.workspaces import workspace, write_workspace

WORKSPACE = """\
home: .moirae
streams: {}
relations:
  hosts:
    columns: {host: string, cores: int, size: bigint, day: date}
    key: [host]
    source: {file: hosts.jsonl}
"""
ROW = {"host": "a", "cores": 4, "size": 10, "day": "2026-01-02"}


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with workspace(WORKSPACE, "groups: []\n") as folder:
        yield folder


@pytest.fixture
def connection(root: Path) -> Iterator[Connection[Any]]:
    write_workspace(root, WORKSPACE)
    settings = load_settings(root / "moirae.yaml", {})
    with connect_database(settings, "tests") as opened:
        update_relations(settings.relations, opened)
        RelationGateway(opened).put_version(
            "hosts", ["a"], row=ROW, valid_from=datetime(2026, 1, 1, tzinfo=UTC)
        )
        yield opened
        for table in ("relation_versions", "relation_declarations"):
            opened.execute(f"DELETE FROM {table}")


def change(root: Path, old: str, new: str) -> Settings:
    write_workspace(root, WORKSPACE.replace(old, new))
    return load_settings(root / "moirae.yaml", {})


def test_stored_rows_are_converted_and_keep_their_versions(
    root: Path, connection: Connection[Any]
) -> None:
    columns = (
        "{name: {type: string, was: host}, cores: bigint, size: double, day: timestamp, x: int}"
    )
    text = "columns: {host: string, cores: int, size: bigint, day: date}\n    key: [host]"
    settings = change(root, text, f"columns: {columns}\n    key: [name]")
    for _ in range(2):  # the second time nothing is left to do
        check_relations(settings, connection)
        update_relations(settings.relations, connection)
    (row,) = Relations(connection, settings.relations).table("hosts").to_pylist()
    assert (row["name"], row["cores"], row["size"], row["x"]) == ("a", 4, 10.0, None)
    assert row["day"] == datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("size: bigint", "size: int", "relations.hosts.columns.size: column size was archived as"),
        ("key: [host]", "key: [host, cores]", "relations.hosts.key: stored rows are identified by"),
        ("host: string", "host: int", "relations.hosts.columns.host: column host was archived as"),
    ],
)
def test_other_changes_are_refused(
    root: Path, connection: Connection[Any], old: str, new: str, message: str
) -> None:
    settings = change(root, old, new)
    with pytest.raises(ProblemsError, match=message):
        check_relations(settings, connection)


def test_value_that_would_change_is_named(root: Path, connection: Connection[Any]) -> None:
    large = {**ROW, "host": "b", "size": 2**53 + 1}
    RelationGateway(connection).put_version("hosts", ["b"], row=large, valid_from=datetime.now(UTC))
    settings = change(root, "size: bigint", "size: double")
    with pytest.raises(MoiraeError, match=f"relation hosts: column size: {2**53 + 1} would change"):
        update_relations(settings.relations, connection)
    (first, _) = RelationGateway(connection).list_stored_rows("hosts")
    assert first.row == ROW


def test_values_are_converted() -> None:
    assert convert(None, "int", "double") is None
    assert type(convert(4, "int", "double")) is float
    assert convert(4, "int", "bigint") == 4
