"""Conversion of Parquet tables to declared columns."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

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


def test_times_before_1970_are_cut_as_texts_are() -> None:
    nanoseconds = pa.array([-1], pa.timestamp("ns", tz="UTC"))
    decoded = decode_table(SCHEMA, pa.table({"ts": nanoseconds}), 1)
    assert decoded.table["ts"].cast(pa.int64()).to_pylist() == [-1]


def test_time_beyond_any_calendar_is_refused_alone() -> None:
    seconds = pa.array([2**62, 7], pa.timestamp("s", tz="UTC"))
    decoded = decode_table(SCHEMA, pa.table({"ts": seconds}), 1)
    assert decoded.table["ts"].cast(pa.int64()).to_pylist() == [7_000_000]
    (refused,) = decoded.refused_lines
    assert refused.detail == "column ts: not between the years 1900 and 9999"


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_last_second_of_the_year_9999_is_a_time(unit: str) -> None:
    end = 253402300800 * {"s": 1, "ms": 10**3, "us": 10**6}[unit]
    moments = pa.array([end - 1, end], pa.timestamp(unit, tz="UTC"))
    decoded = decode_table(SCHEMA, pa.table({"ts": moments}), 1)
    assert decoded.line_numbers.tolist() == [1]
    assert [refused.line for refused in decoded.refused_lines] == [2]


def _decode_numbers(kind: str, values: pa.Array) -> tuple[list[object], list[str]]:
    schema = replace(SCHEMA, columns={"ts": "timestamp", "x": kind})
    decoded = decode_table(schema, pa.table({"ts": times(*range(len(values))), "x": values}), 1)
    assert len(decoded.table) + len(decoded.refused_lines) == len(values)
    return decoded.table["x"].to_pylist(), [line.detail for line in decoded.refused_lines]


@pytest.mark.parametrize("file_type", [pa.float64(), pa.float32(), pa.float16()])
def test_floats_are_integers_if_they_have_no_fraction(file_type: pa.DataType) -> None:
    values = pa.array([95.0, -0.0, None, 95.5, float("nan")], pa.float64()).cast(file_type)
    assert _decode_numbers("bigint", values) == (
        [95, 0, None],
        ["column x: 95.5 is not an integer", "column x: nan is not an integer"],
    )


def test_floats_at_both_ends_of_bigint() -> None:
    numbers, details = _decode_numbers("bigint", pa.array([-(2.0**63), 2.0**63, 2.0**53]))
    assert numbers == [-(2**63), 2**53]
    assert details == ["column x: 9.223372036854776e+18 is out of range for type bigint"]


@pytest.mark.parametrize("bits", [128, 256])
def test_decimals_are_converted_exactly(bits: int) -> None:
    make_type = pa.decimal128 if bits == 128 else pa.decimal256
    texts = ["9223372036854775807.00", "-9223372036854775809.00", "9007199254740993.00", "0.10"]
    values = pa.array([Decimal(text) for text in texts], make_type(30, 2))
    assert _decode_numbers("bigint", values) == (
        [2**63 - 1, 2**53 + 1],
        [
            "column x: -9223372036854775809.00 is out of range for type bigint",
            "column x: 0.10 is not an integer",
        ],
    )
    assert _decode_numbers("double", values)[0] == [float(text) for text in texts]


def test_double_beyond_float_is_refused() -> None:
    numbers, details = _decode_numbers("float", pa.array([0.1, 1e39, float("inf"), None]))
    assert numbers == [pytest.approx(0.1), float("inf"), None]
    assert details == ["column x: 1e+39 is out of range for type float"]


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
