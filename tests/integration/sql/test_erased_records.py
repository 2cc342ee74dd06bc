"""Values go from all records, few by patterns of the database and many in one pass over its records."""

import json
from typing import Any

import pytest
from psycopg import Connection

from moirae.erasure.values import ErasedValues
from sql.archive import ErasedRecords, ErasedText

pytestmark = pytest.mark.services

PEOPLE = [f"person-{number:05}" for number in range(2_000)]


@pytest.mark.parametrize("people", [PEOPLE[:3] + PEOPLE[-1:], PEOPLE])
def test_values_go_from_records(connection: Connection[Any], people: list[str]) -> None:
    values = ErasedValues(people)
    text = ErasedText(values.patterns, values.mask, values.search, values.search_bytes)
    with connection.transaction(force_rollback=True):
        connection.execute("DELETE FROM audit")
        connection.execute("DELETE FROM relation_versions")
        for author, users in (("person-00001", PEOPLE[:3]), ("x", ["person-x", 7])):
            connection.execute(
                "INSERT INTO audit (author, via, operation, arguments) VALUES (%s, 'cli', 'x', %s)",
                (author, json.dumps({"users": users})),
            )
        for user in (PEOPLE[-1], "person-x"):
            connection.execute(
                "INSERT INTO relation_versions (relation, key, valid_from, row) VALUES ('r', %s, now(), '{}')",
                (json.dumps({"user": user}),),
            )
        counts = ErasedRecords(connection).clean(text)
        assert (counts["audit"], counts["relation_versions"]) == (1, 1)
        assert connection.execute("SELECT author, arguments FROM audit ORDER BY id").fetchall() == [
            ("[erased]", {"users": ["[erased]"] * 3}),
            ("x", {"users": ["person-x", 7]}),
        ]
        assert connection.execute("SELECT key FROM relation_versions").fetchall() == [
            ({"user": "person-x"},)
        ]
