"""Completed maintenance tasks of chunks."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import sql
from moirae.runtime import connect_database
from sql.archive import ChunkGateway
from tests.property.world import workspace


@pytest.fixture(scope="module")
def connection(public_folder: Path) -> Iterator[sql.Connection]:
    with connect_database(workspace(public_folder), "tests") as opened:
        yield opened


def test_task_is_completed_once_for_each_version(connection: sql.Connection) -> None:
    chunks = ChunkGateway(connection)
    chunks.put(1, from_ts=None, to_ts=None, state="present")
    completed = [chunks.put_completed_task(1, "cluster", version) for version in (1, 1, 3, 2)]
    assert completed == [True, False, True, False]


def test_task_of_a_deleted_chunk_is_not_recorded(connection: sql.Connection) -> None:
    assert not ChunkGateway(connection).put_completed_task(7, "cluster", 1)
