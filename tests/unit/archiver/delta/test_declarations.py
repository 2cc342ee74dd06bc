"""Declarations of a stream as its table records them, and the takeover of a new one."""

from dataclasses import replace
from datetime import timedelta

import numpy as np

from archiver.delta.declarations import (
    StoredTable,
    assume_first_declaration,
    compare_declaration,
    decode_declarations,
    encode_declarations,
    is_same_declaration,
)
from archiver.delta.schema import ADDED_COLUMNS, StreamSchema

COLUMNS = {"host": "string", "ts": "timestamp", "v": "bigint"}
SCHEMA = StreamSchema("s", COLUMNS, "ts", ("host",), (), timedelta(0), timedelta(0))
WIDER = replace(SCHEMA, columns={**COLUMNS, "v": "double"})

JSON_TYPES = {"string": '"string"', "timestamp": '"timestamp"', "bigint": '"long"'}


def stored_table(append_count: int, declared: StreamSchema | None = None) -> StoredTable:
    """A table with the columns of `SCHEMA`; `declared`: as it records."""
    types = {name: JSON_TYPES[COLUMNS[name]] for name in ("ts", "host", "v")}
    return StoredTable(
        {**types, **dict.fromkeys(ADDED_COLUMNS, '"string"')},
        None if declared is None else encode_declarations(declared),
        append_count,
        is_empty=False,
    )


def test_declarations_are_read_back() -> None:
    declared = replace(WIDER, fields={"v": ("w", "v")})
    taken_over = compare_declaration(declared, stored_table(3, SCHEMA)).schema
    read_back = decode_declarations(WIDER, encode_declarations(taken_over))
    assert read_back == taken_over
    numbers = read_back.declaration_numbers(np.array([0, 3, 4]))
    types = [read_back.declaration(int(number)).columns["v"] for number in numbers]
    assert types == ["bigint", "bigint", "double"]


def test_order_of_columns_is_part_of_a_declaration() -> None:
    reordered = replace(SCHEMA, columns=dict(reversed(COLUMNS.items())))
    assert not is_same_declaration(SCHEMA, reordered)
    assert is_same_declaration(SCHEMA, replace(SCHEMA, key=("host",), lateness=timedelta(1)))


def test_table_of_an_earlier_version_gets_the_order_of_the_present_declaration() -> None:
    first = assume_first_declaration(SCHEMA, {"ts": "timestamp", "host": "string", "v": "bigint"})
    assert is_same_declaration(first, SCHEMA)
    renamed = replace(
        SCHEMA,
        columns={"machine": "string", "ts": "timestamp", "new": "double"},
        id=("machine",),
        was={"machine": "host"},
    )
    stored = {"ts": "timestamp", "host": "string", "v": "bigint"}
    first = assume_first_declaration(renamed, stored)
    assert first.columns == {"host": "string", "ts": "timestamp", "v": "bigint"}
    assert first.id == ("host",) and first.time == "ts"


def test_declaration_without_appends_is_dropped() -> None:
    second = compare_declaration(WIDER, stored_table(3, SCHEMA)).schema
    third = compare_declaration(SCHEMA, stored_table(3, second)).schema
    assert [earlier.last_append for earlier in third.earlier] == [3]
    assert third.earlier[0].schema.columns["v"] == "bigint"


def test_recorded_declaration_takes_nothing() -> None:
    compared = compare_declaration(SCHEMA, stored_table(3, SCHEMA))
    assert compared.is_recorded and not compared.changes.rewritten and not compared.problems
    assert compare_declaration(SCHEMA, stored_table(3)).is_recorded is False


def test_empty_table_takes_any_declaration() -> None:
    other = replace(SCHEMA, columns={"at": "timestamp", "v": "date"}, time="at", id=None)
    table = stored_table(3, SCHEMA)._replace(is_empty=True)
    compared = compare_declaration(other, table)
    assert not compared.problems and not compared.is_recorded and not compared.schema.earlier
