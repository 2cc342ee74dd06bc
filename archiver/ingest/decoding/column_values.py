"""Convert columns that Arrow has read to the declared types, as the line decoder does."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from archiver.delta import ARROW_TYPES, StreamSchema
from archiver.ingest.decoding.line_decoder import (
    END_OF_EVENT_TIME,
    MIN_EVENT_TIME,
    timestamps_from_texts,
)
from archiver.ingest.decoding.numbers import numbers_from_texts

_ESCAPED_IN_JSON = r'[\x00-\x1f"\\]'
_PLAIN_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_FIRST_DAY = -719_162  # 0001-01-01, the first date of Python, in days since 1970


def convert_columns(schema: StreamSchema, rows: pa.RecordBatch) -> dict[str, pa.Array] | None:
    """The declared columns in their types; None if a value is invalid or could be another.

    The columns of `rows` have the types of values in JSON, or are texts.
    """
    columns: dict[str, pa.Array] = {}
    for name, kind in schema.columns.items():
        field = schema.present_field(name, rows.schema.names)
        if field is None:
            columns[name] = pa.nulls(len(rows), ARROW_TYPES[kind])
        else:
            try:
                column = _convert(rows.column(field), kind)
            except pa.ArrowInvalid:
                return None
            if column is None:
                return None
            columns[name] = column
    if schema.time and columns[schema.time].null_count:
        return None
    return columns


def extra_column(undeclared: pa.RecordBatch) -> pa.Array:
    """The column `_extra`: the undeclared fields as JSON objects with sorted keys."""
    if not undeclared.num_columns:
        return pa.nulls(len(undeclared), pa.string())
    parts: list[Any] = []
    for name in sorted(undeclared.schema.names):
        separator = "," if parts else "{"
        parts += [f"{separator}{orjson.dumps(name).decode()}:", _to_json(undeclared.column(name))]
    return pc.binary_join_element_wise(*parts, "}", "")


def _to_json(values: pa.Array) -> pa.Array:
    if not pa.types.is_string(values.type):
        texts = values.cast(pa.string())
    elif pc.any(pc.match_substring_regex(values, _ESCAPED_IN_JSON)).as_py():
        texts = pa.array([orjson.dumps(value).decode() for value in values.to_pylist()])
    else:
        texts = pc.binary_join_element_wise('"', values, '"', "")
    return pc.fill_null(texts, "null")


def _convert(values: pa.Array, kind: str) -> pa.Array | None:
    if values.null_count == len(values):
        return pa.nulls(len(values), ARROW_TYPES[kind])
    if pa.types.is_string(values.type):
        return _FROM_TEXTS[kind](values)
    if not pa.types.is_floating(values.type):
        return values.cast(ARROW_TYPES[kind])
    if kind == "timestamp":
        return _timestamps_from_seconds(values)
    return values if _is_json(values) else None


def _is_json(values: pa.Array) -> bool:
    """Whether numbers are as in JSON, and as the line decoder parses them.

    Arrow's reader accepts NaN and Infinity, and overflows to infinity. The text -0 is 0 for the
    line decoder.
    """
    numbers = values.drop_null().to_numpy()
    has_negative_zero = (np.signbit(numbers) & (numbers == 0)).any()
    return bool(np.isfinite(numbers).all() and not has_negative_zero)


def _timestamps_from_seconds(values: pa.Array) -> pa.Array | None:
    if values.null_count:
        return None
    seconds = values.to_numpy()
    # Beyond this, products of a whole number as float64 and as integer may differ.
    limit = min(END_OF_EVENT_TIME, 2**53 / 1e6)
    if not ((seconds >= MIN_EVENT_TIME) & (seconds <= limit)).all():
        return None
    micros = np.rint(seconds * 1e6)
    return pa.array(micros.astype(np.int64)).cast(ARROW_TYPES["timestamp"])


def _booleans_from_texts(texts: pa.Array) -> pa.Array | None:
    is_true = pc.is_in(texts, pa.array(["true", "True", "TRUE"]))
    is_false = pc.is_in(texts, pa.array(["false", "False", "FALSE"]))
    is_boolean = pc.or_(pc.or_(is_true, is_false), pc.is_null(texts))
    if not pc.all(is_boolean).as_py():
        return None
    return pc.if_else(pc.is_null(texts), None, is_true)


def _dates_from_texts(texts: pa.Array) -> pa.Array | None:
    if pc.all(pc.match_substring_regex(texts, _PLAIN_DATE)).as_py() is False:
        return None
    dates = texts.cast(pa.date32())
    first = pc.min(dates.cast(pa.int32())).as_py()
    return dates if first >= _FIRST_DAY else None


_FROM_TEXTS: Mapping[str, Callable[[pa.Array], pa.Array | None]] = {
    "string": lambda texts: texts,
    "boolean": _booleans_from_texts,
    "int": lambda texts: numbers_from_texts(texts, "int"),
    "bigint": lambda texts: numbers_from_texts(texts, "bigint"),
    "float": lambda texts: numbers_from_texts(texts, "float"),
    "double": lambda texts: numbers_from_texts(texts, "double"),
    "date": _dates_from_texts,
    "timestamp": timestamps_from_texts,
}
