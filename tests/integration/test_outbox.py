"""Settled rows of PostgreSQL are archived once, in few commits: when there are enough of them, or
their chunk is closed.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from psycopg import Connection

from archiver.chunks.chunk import Chunk
from archiver.delta.log import DeltaLog
from archiver.delta.sequenced_table import COMMIT_ROWS, EVENTS, SequencedTable
from archiver.times import to_micros
from moirae.config.settings import Settings, load_settings_from_environment
from moirae.inspect.doctor import run_checks
from moirae.live.outbox import Outbox
from moirae.runtime import database
from tests.workspaces import write_workspace

START = datetime(2026, 1, 1, tzinfo=UTC)


class Killed(BaseException):
    """Raised where the process is killed."""


@pytest.fixture(scope="module")
def settings(public_folder: Path) -> Settings:
    write_workspace(public_folder, "home: .moirae\nrules: []\n")
    return load_settings_from_environment(public_folder / "moirae.yaml")


@pytest.fixture
def connection(settings: Settings) -> Iterator[Connection[Any]]:
    with database.connect_database(settings, "test") as connection:
        yield connection


def settle(connection: Connection[Any], numbers: range) -> None:
    """Events, a second of event time each."""
    connection.execute(
        "INSERT INTO events (eid, rule, version, ts, fingerprint, key, attributes, settled) "
        "SELECT lpad(to_hex(n), 32, '0')::uuid, 'g/R', 'v', %s + make_interval(secs => n), 'f', "
        "'{}', '{}', true "
        "FROM generate_series(%s::int, %s::int) n",
        (START, numbers.start, numbers.stop - 1),
    )


def test_settled_rows_are_archived_once_in_few_commits(
    settings: Settings, connection: Connection[Any]
) -> None:
    """Also after a crash at any point, and with two concurrent writers."""
    root = Path(settings.archive)
    cut = to_micros(START + timedelta(seconds=100))
    present = [Chunk(0, None, cut, "present"), Chunk(1, cut, None)]
    closed = [Chunk(0, None, cut, "recent"), Chunk(1, cut, None)]
    table, one, other = (
        SequencedTable(root, EVENTS),
        *(Outbox(connection, root, EVENTS) for _ in range(2)),
    )

    def archived() -> list[int]:
        return sorted(UUID(eid).int for eid in table.read()["eid"].to_pylist())

    settle(connection, range(1, 90))
    one.flush_if_due(present, 0.0)
    assert archived() == [], "few, and more to come"
    with patch.object(DeltaLog, "commit", side_effect=Killed), pytest.raises(Killed):
        one.flush_if_due(closed, 1.0)
    assert archived() == []
    Outbox(connection, root, EVENTS).flush_if_due(closed, 1.0)
    assert archived() == list(range(1, 90)), "the next process continues"
    settle(connection, range(90, 120))
    other.flush(closed)
    one.flush(closed)
    assert archived() == list(range(1, 120)), "who comes second adds nothing"
    assert sorted((file.chunk, file.rows) for file in table.data_files()) == [
        (0, 10),
        (0, 89),
        (1, 20),
    ]
    settle(connection, range(120, 120 + COMMIT_ROWS))
    before = table.last_number()
    other.flush_if_due(present, 2.0)
    assert table.last_number() == before + COMMIT_ROWS, "enough for a file"
    assert not [finding for finding in run_checks(settings, connection) if finding.problems]
