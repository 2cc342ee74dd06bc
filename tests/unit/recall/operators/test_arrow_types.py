"""Arrow types for Spark's types."""

import pyarrow as pa
import pytest

from recall.operators.arrow_types import arrow_type


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bigint", pa.int64()),
        ("decimal(12,3)", pa.decimal128(12, 3)),
        ("decimal", pa.decimal128(10, 0)),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("array<string>", pa.list_(pa.string())),
        ("map<string,array<int>>", pa.map_(pa.string(), pa.list_(pa.int32()))),
        ("struct<a:int,b:date>", pa.struct([("a", pa.int32()), ("b", pa.date32())])),
    ],
)
def test_types_are_translated(name: str, expected: pa.DataType) -> None:
    assert arrow_type(name) == expected


@pytest.mark.parametrize("name", ["interval day", "array<interval day>", "struct<a:interval day>"])
def test_types_without_an_arrow_type_are_none(name: str) -> None:
    assert arrow_type(name) is None
