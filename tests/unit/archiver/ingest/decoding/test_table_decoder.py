"""Conversion of Parquet tables to declared columns."""

from datetime import timedelta

import orjson
import pyarrow as pa
import pytest

from archiver.delta.schema import StreamSchema
from archiver.errors import IncompatibleColumn
from archiver.ingest.decoding.table_decoder import RowsAsJson, decode_table

SCHEMA = StreamSchema(
    "s",
    {"ts": "timestamp", "host": "string", "n": "int"},
    "ts",
    None,
    (),
    timedelta(0),
    timedelta(0),
)


def times(*micros: int | None, unit: str = "us") -> pa.Array:
    in_micros = pa.array(micros, pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    return in_micros.cast(pa.timestamp(unit, tz="UTC"))


def test_invalid_rows_are_refused_and_numbered() -> None:
    table = pa.table({"ts": times(0, None, 2), "n": pa.array([1, 2, 2**31], pa.int64())})
    decoded = decode_table(SCHEMA, table, 11)
    assert decoded.line_numbers.tolist() == [11]
    assert decoded.table["n"].to_pylist() == [1]
    assert [(refused.line, refused.detail) for refused in decoded.refused_lines] == [
        (12, "column ts: event time is missing"),
        (13, "column n: 2147483648 is out of range for type int"),
    ]
    assert orjson.loads(decoded.refused_lines[1].raw)["n"] == 2**31


def test_missing_columns_are_null_and_undeclared_ones_in_extra() -> None:
    decoded = decode_table(SCHEMA, pa.table({"ts": times(0), "z": [1], "a": ["x"]}), 1)
    assert decoded.table["host"].to_pylist() == [None]
    assert decoded.table["_extra"].to_pylist() == ['{"a":"x","z":1}']


def test_nanoseconds_are_truncated_to_microseconds() -> None:
    nanoseconds = pa.array([1_999], pa.timestamp("ns", tz="UTC"))
    decoded = decode_table(SCHEMA, pa.table({"ts": nanoseconds}), 1)
    assert decoded.table["ts"].cast(pa.int64()).to_pylist() == [1]


def test_column_of_another_type_raises_incompatible_column() -> None:
    table = pa.table({"ts": times(0), "n": ["1"]})
    with pytest.raises(
        IncompatibleColumn,
        match="column n: type string of the file cannot be converted to int",
    ):
        decode_table(SCHEMA, table, 1)


def test_rows_are_serialised_on_access() -> None:
    rows = RowsAsJson(pa.table({"n": [1, 2, 3]}))
    assert rows[1] == b'{"n":2}'
    assert rows[1:] == [b'{"n":2}', b'{"n":3}']
