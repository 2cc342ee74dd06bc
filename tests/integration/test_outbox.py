"""What PostgreSQL has settled is archived once, in few commits: when there is enough, or its chunk is closed."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import pytest
from psycopg import Connection

from archiver.chunk import Chunk
from archiver.log import Log
from archiver.numbered import ENOUGH, EVENTS, NumberedTable
from archiver.times import to_micros
from moirae import database
from moirae.doctor import examine
from moirae.live.outbox import Outbox
from moirae.settings import Settings, from_environment

START = datetime(2026, 1, 1, tzinfo=UTC)


class Killed(BaseException):
    """As by kill -9."""


@pytest.fixture(scope="module")
def settings(public_folder: Path) -> Settings:
    (public_folder / "moirae.yaml").write_text("home: .moirae\nrules: []\n")
    return from_environment(public_folder / "moirae.yaml")


@pytest.fixture
def connection(settings: Settings) -> Iterator[Connection[Any]]:
    with database.connect(settings, "test") as connection:
        yield connection


def settle(connection: Connection[Any], numbers: range) -> None:
    """Events, a second of event time each."""
    connection.execute(
        "INSERT INTO events (eid, rule, version, ts, fingerprint, key, attributes, settled) "
        "SELECT lpad(to_hex(n), 32, '0')::uuid, 'g/R', 'v', %s + make_interval(secs => n), 'f', '{}', '{}', true "
        "FROM generate_series(%s::int, %s::int) n",
        (START, numbers.start, numbers.stop - 1),
    )


def test_rows_wait_for_one_another_and_are_archived_once(settings: Settings, connection: Connection[Any]) -> None:
    """Wherever the process falls, and when two do it at once."""
    root = Path(settings.archive)
    cut = to_micros(START + timedelta(seconds=100))
    present = [Chunk(0, None, cut, "present"), Chunk(1, cut, None)]
    closed = [Chunk(0, None, cut, "recent"), Chunk(1, cut, None)]
    table, one, other = NumberedTable(root, EVENTS), *(Outbox(connection, root, EVENTS) for _ in range(2))

    def archived() -> list[int]:
        return sorted(UUID(eid).int for eid in table.read()["eid"].to_pylist())

    settle(connection, range(1, 90))
    one.flush_enough(present, 0.0)
    assert archived() == [], "few, and more to come"
    with patch.object(Log, "commit", side_effect=Killed), pytest.raises(Killed):
        one.flush_enough(closed, 1.0)
    assert archived() == []
    Outbox(connection, root, EVENTS).flush_enough(closed, 1.0)
    assert archived() == list(range(1, 90)), "the next goes on"
    settle(connection, range(90, 120))
    other.flush(closed)
    one.flush(closed)
    assert archived() == list(range(1, 120)), "who comes second adds nothing"
    assert sorted((file.chunk, file.rows) for file in table.held()) == [(0, 10), (0, 89), (1, 20)]
    settle(connection, range(120, 120 + ENOUGH))
    before = table.last()
    other.flush_enough(present, 2.0)
    assert table.last() == before + ENOUGH, "enough for a file"
    assert not [finding for finding in examine(settings, connection) if finding.wrong]
