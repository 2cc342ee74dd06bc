"""Columns that are read from other fields: blocks of lines and single lines give the same rows."""

from datetime import timedelta
from typing import Any

import orjson
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from archiver.delta import StreamSchema
from archiver.formats import CSV, JSONL, RecordReading
from archiver.ingest.decoding import decode_blocks, decode_lines, decode_table

FIELDS = ("ts", "a", "b", "host.name")
# Enough lines for a block.
REPETITIONS = 400

schemas = st.builds(
    lambda fields, first, second: StreamSchema(
        "s",
        {"ts": "timestamp", "x": first, "y": second},
        "ts",
        None,
        (),
        timedelta(0),
        timedelta(0),
        fields=fields,
    ),
    st.dictionaries(
        st.sampled_from(["x", "y"]),
        st.lists(st.sampled_from([*FIELDS[1:], "x"]), min_size=1, max_size=2, unique=True).map(
            tuple
        ),
    ),
    st.sampled_from(["string", "bigint", "double"]),
    st.sampled_from(["string", "bigint"]),
)
values = st.one_of(st.none(), st.integers(-9, 9), st.sampled_from(["1", "x"]))
records = st.lists(
    st.dictionaries(st.sampled_from([*FIELDS[1:], "x", "y"]), values, max_size=5),
    min_size=1,
    max_size=4,
)


@given(schemas, records, st.booleans())
def test_json_blocks_equal_lines(
    schema: StreamSchema, rows: list[dict[str, Any]], is_uniform: bool
) -> None:
    if is_uniform:
        rows = [{**dict.fromkeys(rows[0], "1"), **rows[0]}] * len(rows)
    lines = [orjson.dumps({"ts": "2026-01-01T00:00:00Z", **row}) for row in rows] * REPETITIONS
    assert_same(schema, RecordReading(JSONL), lines)


@given(schemas, st.lists(st.sampled_from([*FIELDS[1:], "x", "y"]), unique=True), st.data())
def test_csv_blocks_equal_lines(
    schema: StreamSchema, fields: list[str], data: st.DataObject
) -> None:
    row = [data.draw(st.sampled_from(["1", "2", "x", ""])) for _ in fields]
    line = ",".join(["2026-01-01T00:00:00Z", *row]).encode()
    assert_same(schema, RecordReading(CSV, ("ts", *fields)), [line] * REPETITIONS * 2)


def assert_same(schema: StreamSchema, reading: RecordReading, lines: list[bytes]) -> None:
    blocks = decode_blocks(schema, reading, lines, 0)
    linewise = decode_lines(schema, reading, lines, 0)
    assert blocks.table.equals(linewise.table.cast(blocks.table.schema))
    assert blocks.refused_lines == linewise.refused_lines


def test_first_present_field_counts_and_others_are_extra() -> None:
    schema = StreamSchema(
        "s",
        {"ts": "timestamp", "v": "bigint", "copy": "string"},
        "ts",
        None,
        (),
        timedelta(0),
        timedelta(0),
        fields={"v": ("value", "w"), "copy": ("value",)},
    )
    ts = "2026-01-01T00:00:00Z"
    given_rows = [
        {"ts": ts, "value": 1, "w": 2},
        {"ts": ts, "w": 3, "v": 4},
        {"ts": ts, "copy": "c"},
    ]
    expected = [(1, "1", '{"w":2}'), (3, None, '{"v":4}'), (None, None, '{"copy":"c"}')]
    decoded = decode_lines(
        schema, RecordReading(JSONL), list(map(orjson.dumps, given_rows)), 0
    ).table
    read = list(zip(*(decoded[name].to_pylist() for name in ("v", "copy", "_extra")), strict=True))
    assert read == expected


def test_parquet_columns_are_read_from_their_fields() -> None:
    schema = StreamSchema(
        "s",
        {"ts": "timestamp", "v": "bigint"},
        "ts",
        None,
        (),
        timedelta(0),
        timedelta(0),
        fields={"v": ("value", "w")},
    )
    ts = pa.array([0], pa.timestamp("us", tz="UTC"))
    decoded = decode_table(schema, pa.table({"ts": ts, "w": [1], "v": [2]}), 1).table
    assert decoded["v"].to_pylist() == [1] and decoded["_extra"].to_pylist() == ['{"v":2}']
