"""When the history of a demo is ready."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import sql
from moirae.runtime import connect_database
from sql.reports import DemoGateway
from tests.property.world import workspace


@pytest.fixture(scope="module")
def connection(public_folder: Path) -> Iterator[sql.Connection]:
    with connect_database(workspace(public_folder), "tests") as opened:
        opened.execute(
            "INSERT INTO deployments (rule, version, settled_to, state)"
            " VALUES ('g/A', 'v', now(), 'running')"
        )
        opened.execute(
            "INSERT INTO processes (role, epoch, pid, state) VALUES ('recall', 1, 1, '')"
        )
        yield opened


@pytest.mark.parametrize(
    ("state", "is_ready"),
    [
        ("starting", False),
        ("running", True),
        ("running, 1 of 2 history queries", True),
        ("ended", False),
    ],
)
def test_history_is_ready_while_the_recall_process_runs(
    connection: sql.Connection, state: str, is_ready: bool
) -> None:
    connection.execute("UPDATE processes SET state = %s", [state])
    assert DemoGateway(connection).history_progress() == (0, is_ready)
