"""Idempotency keys of pushed batches in PostgreSQL."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import sql
from moirae.runtime.database import database_dsn
from sql.access import IdempotencyKeyGateway
from tests.property.world import workspace


@pytest.fixture
def connection(public_folder: Path) -> Iterator[sql.Connection]:
    dsn = database_dsn(workspace(public_folder))
    with sql.connect(dsn, application_name="tests") as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        sql.migrate(connection)
        yield connection


def test_known_key_keeps_its_first_digest(connection: sql.Connection) -> None:
    keys = IdempotencyKeyGateway(connection)
    assert keys.find_digest("cpu", "a") is None
    assert keys.insert("cpu", "a", b"first")
    assert not keys.insert("cpu", "a", b"second")
    assert keys.find_digest("cpu", "a") == b"first"
    assert keys.insert("disk", "a", b"second")


def test_keys_older_than_seven_days_are_deleted(connection: sql.Connection) -> None:
    keys = IdempotencyKeyGateway(connection)
    keys.insert("cpu", "old", b"x")
    keys.insert("cpu", "new", b"x")
    connection.execute("UPDATE pushes SET at = at - interval '8 days' WHERE key = 'old'")
    keys.delete_expired()
    assert keys.find_digest("cpu", "old") is None
    assert keys.find_digest("cpu", "new") == b"x"
