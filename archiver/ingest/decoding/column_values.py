"""Convert columns that Arrow has read to the declared types, as the line decoder does."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from archiver.delta import ARROW_TYPES, StreamSchema
from archiver.formats import RecordReading
from archiver.ingest.decoding.event_times import TimeReader
from archiver.ingest.decoding.line_decoder import time_reader
from archiver.ingest.decoding.numbers import numbers_from_texts

_ESCAPED_IN_JSON = r'[\x00-\x1f"\\]'
_PLAIN_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_FIRST_DAY = -719_162  # 0001-01-01, the first date of Python, in days since 1970


def convert_columns(
    schema: StreamSchema, reading: RecordReading, values: Mapping[str, pa.Array], length: int
) -> dict[str, pa.Array] | None:
    """The declared columns in their types; None if a value is invalid or could be another.

    `values`: by column, unless no record has it; they have the types of values in JSON, or are
    texts.
    """
    columns: dict[str, pa.Array] = {}
    for name, kind in schema.columns.items():
        if name not in values:
            columns[name] = pa.nulls(length, ARROW_TYPES[kind])
            continue
        try:
            if kind == "timestamp":
                column = _convert_times(values[name], time_reader(schema, name, reading))
            else:
                column = _convert(_with_decimal_points(values[name], kind, reading), kind)
        except pa.ArrowInvalid:
            return None
        if column is None:
            return None
        columns[name] = column
    if schema.time and columns[schema.time].null_count:
        return None
    return columns


def _convert_times(values: pa.Array, times: TimeReader) -> pa.Array | None:
    if values.null_count == len(values):
        return pa.nulls(len(values), ARROW_TYPES["timestamp"])
    return times.read_array(values)


def _with_decimal_points(values: pa.Array, kind: str, reading: RecordReading) -> pa.Array | None:
    """As `line_decoder.with_decimal_points`; None if a text has a point."""
    decimal = reading.format.csv.decimal
    if decimal == "." or kind not in ("float", "double") or not pa.types.is_string(values.type):
        return values
    if pc.any(pc.match_substring(values, ".")).as_py():
        return None
    return pc.replace_substring(values, decimal, ".")


def extra_column(fields: Mapping[str, pa.Array], length: int) -> pa.Array | None:
    """The column `_extra`: undeclared fields as JSON objects with sorted keys.

    None if a value has no text that is the same for the line decoder.
    """
    if not fields:
        return pa.nulls(length, pa.string())
    return _object_to_json(fields)


def sparse_extra_column(fields: Mapping[str, pa.Array], length: int) -> pa.Array:
    """The column `_extra` of records that do not have the fields that are null."""
    parts: list[Any] = []
    for name in sorted(fields):
        if fields[name].null_count == length:
            continue
        text = pc.binary_join_element_wise(
            f",{orjson.dumps(name).decode()}:", _text_to_json(fields[name]), ""
        )
        parts.append(pc.fill_null(text, ""))
    if not parts:
        return pa.nulls(length, pa.string())
    joined = pc.binary_join_element_wise(*parts, "")
    objects = pc.binary_join_element_wise("{", pc.utf8_slice_codeunits(joined, 1), "}", "")
    return pc.if_else(pc.equal(joined, ""), None, objects)


def _object_to_json(fields: Mapping[str, pa.Array]) -> pa.Array | None:
    parts: list[Any] = []
    for name in sorted(fields):
        separator = "," if parts else "{"
        text = to_json_texts(fields[name])
        if text is None:
            return None
        parts += [f"{separator}{orjson.dumps(name).decode()}:", text]
    return pc.binary_join_element_wise(*parts, "}", "")


def to_json_texts(values: pa.Array) -> pa.Array | None:
    """Values as JSON, with sorted keys; None: not as the line decoder writes them."""
    kind = values.type
    if pa.types.is_struct(kind):
        if values.null_count:
            return None
        names = [kind.field(index).name for index in range(kind.num_fields)]
        if not names:
            return pa.array(["{}"] * len(values), pa.string())
        return _object_to_json({name: values.field(name) for name in names})
    if pa.types.is_list(kind):
        elements = to_json_texts(values.flatten())
        if values.null_count or values.flatten().null_count or elements is None:
            return None
        texts = pa.ListArray.from_arrays(_offsets(values), elements)
        return pc.binary_join_element_wise("[", pc.binary_join(texts, ","), "]", "")
    if not pa.types.is_string(kind):
        return pc.fill_null(values.cast(pa.string()), "null")
    return pc.fill_null(_text_to_json(values), "null")


def _offsets(values: pa.ListArray) -> pa.Array:
    """Where the elements of each list begin among those of all."""
    lengths = pc.list_value_length(values).to_numpy()
    return pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())


def _text_to_json(values: pa.Array) -> pa.Array:
    if pc.any(pc.match_substring_regex(values, _ESCAPED_IN_JSON)).as_py():
        return pa.array(
            [
                None if value is None else orjson.dumps(value).decode()
                for value in values.to_pylist()
            ],
            pa.string(),
        )
    return pc.binary_join_element_wise('"', values, '"', "")


def _convert(values: pa.Array | None, kind: str) -> pa.Array | None:
    if values is None:
        return None
    if values.null_count == len(values):
        return pa.nulls(len(values), ARROW_TYPES[kind])
    if pa.types.is_string(values.type):
        return _FROM_TEXTS[kind](values)
    if pa.types.is_nested(values.type):
        return to_json_texts(values) if kind == "string" else None
    if not pa.types.is_floating(values.type):
        return values.cast(ARROW_TYPES[kind])
    return values if _is_json(values) else None


def _is_json(values: pa.Array) -> bool:
    """Whether numbers are as in JSON, and as the line decoder parses them.

    Arrow's reader accepts NaN and Infinity, and overflows to infinity. The text -0 is 0 for the
    line decoder.
    """
    numbers = values.drop_null().to_numpy()
    has_negative_zero = (np.signbit(numbers) & (numbers == 0)).any()
    return bool(np.isfinite(numbers).all() and not has_negative_zero)


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
}
