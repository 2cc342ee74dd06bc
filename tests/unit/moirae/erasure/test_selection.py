"""Which rows a condition selects, and of which streams."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from archiver.delta import ErasedRow, ErasedRows, StreamSchema, hash_identity
from moirae.erasure.selection import (
    ConditionSelection,
    ErasedSelection,
    ErasureCondition,
    choose_streams,
)
from moirae.errors import UsageError
from recall.statements import DuckDBStatements

START = datetime(2026, 1, 1, tzinfo=UTC)
MICROS = 1_000_000


def make_schema(name: str, **columns: str) -> StreamSchema:
    return StreamSchema(
        name=name,
        columns={"ts": "timestamp", **columns},
        time="ts",
        id=None,
        key=(),
        lateness=timedelta(0),
        future=timedelta(0),
    )


SCHEMA = make_schema("logins", user="string", n="bigint")
USERS = ["alice", "bob", None, "alan"]
ROWS = pa.table(
    {
        "ts": pa.array(
            [START + timedelta(seconds=n) for n in range(4)], pa.timestamp("us", tz="UTC")
        ),
        "user": USERS,
        "n": [1, 2, 3, 4],
        "_extra": [None, '{"mail": "b@x"}', None, None],
        "_id": [bytes([n]) * 16 for n in range(4)],
    }
)


def select(where: str, **bounds: Any) -> list[int]:
    selection = ConditionSelection(ErasureCondition(where, **bounds), SCHEMA, DuckDBStatements())
    return np.flatnonzero(selection.select(ROWS)).tolist()


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("user = 'alice'", [0]),
        ("user LIKE 'al%'", [0, 3]),
        ("user IN ('bob', 'alan') AND n < 4", [1]),
        ("NOT user = 'alice'", [1, 3]),
        ("user IS NULL", [2]),
        ("get_json_object(_extra, '$.mail') = 'b@x'", [1]),
        ("USER = 'bob'", [1]),
    ],
)
def test_rows_for_which_the_condition_is_true(where: str, expected: list[int]) -> None:
    assert select(where) == expected


def test_range_of_event_time() -> None:
    first = int(START.timestamp()) * MICROS
    assert select("n > 0", since=first + MICROS, until=first + 3 * MICROS) == [1, 2]


@pytest.mark.parametrize(
    "where",
    [
        "user =",
        "user = 'a' GROUP BY n",
        "lower(user) = 'a'",
        "1 = 1",
        "n IN (SELECT 1)",
        "count(n) > 1",
    ],
)
def test_other_conditions_are_refused(where: str) -> None:
    def choose_and_select() -> None:
        choose_streams({"logins": SCHEMA}, ErasureCondition(where), [])
        select(where)

    with pytest.raises(UsageError, match="--where"):
        choose_and_select()


def test_all_streams_with_the_columns_are_chosen() -> None:
    schemas = {
        "logins": SCHEMA,
        "orders": make_schema("orders", User="string"),
        "cpu": make_schema("cpu", host="string"),
    }
    assert choose_streams(schemas, ErasureCondition("user = 'a'"), []) == ["logins", "orders"]
    assert choose_streams(schemas, ErasureCondition("user = 'a'"), ["orders"]) == ["orders"]
    with pytest.raises(UsageError, match="stream cpu has no column user"):
        choose_streams(schemas, ErasureCondition("user = 'a'"), ["cpu"])
    with pytest.raises(UsageError, match="no stream has the columns shoe"):
        choose_streams(schemas, ErasureCondition("shoe = 'a'"), [])
    with pytest.raises(UsageError, match="no such stream"):
        choose_streams(schemas, ErasureCondition("user = 'a'"), ["other"])


def test_constants_are_what_the_caller_wants_to_be_gone() -> None:
    assert ErasureCondition("user = 'alice' OR n = 3").constants() == ["alice"]


def test_rows_that_were_erased_before_are_selected_by_their_identity() -> None:
    key = b"k" * 32
    hour = int(START.timestamp()) // 3600
    erased = ErasedRows.of(key, [ErasedRow(hash_identity(key, bytes([2]) * 16), 1, 1, hour)])
    selection = ErasedSelection(erased, SCHEMA)
    assert np.flatnonzero(selection.select(ROWS)).tolist() == [2]


def test_constants_are_texts_that_columns_are_to_equal() -> None:
    condition = ErasureCondition(
        "user = 'a' AND 'b' = ip AND host IN ('c', 'd') AND name LIKE 'x%' AND kind <> 'y'"
        " AND NOT (site = 'z') AND site NOT IN ('v') AND get_json_object(_extra, '$.w') = 'e' AND day > 'u'"
    )
    assert sorted(condition.constants()) == ["a", "b", "c", "d", "e"]
