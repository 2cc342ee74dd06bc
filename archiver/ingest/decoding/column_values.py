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
    schema: StreamSchema,
    reading: RecordReading,
    values: Mapping[str, pa.Array],
    length: int,
    *,
    is_sparse: bool = False,
) -> dict[str, pa.Array] | None:
    """The declared columns in their types; None if a value is invalid or could be another.

    `values`: by column, unless no record has it; they have the types of values in JSON, or are
    texts. `is_sparse`: see `to_json_texts`.
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
                plain = _with_decimal_points(values[name], kind, reading)
                column = _convert(plain, kind, is_sparse=is_sparse)
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


def extra_column(
    fields: Mapping[str, pa.Array], length: int, *, is_sparse: bool = False
) -> pa.Array | None:
    """The column `_extra`: undeclared fields as JSON objects with sorted keys.

    None if a value has no text that is the same for the line decoder. `is_sparse`: see
    `to_json_texts`.
    """
    if not fields:
        return pa.nulls(length, pa.string())
    objects = _object_to_json(fields, length, is_sparse=is_sparse)
    may_be_empty = is_sparse and all(values.null_count for values in fields.values())
    if objects is None or not may_be_empty:
        return objects
    return pc.if_else(pc.equal(objects, "{}"), None, objects)


def _object_to_json(
    fields: Mapping[str, pa.Array], length: int, *, is_sparse: bool
) -> pa.Array | None:
    parts: list[Any] = ["{"]
    has_field = False  # each object has one of those before
    for name in sorted(fields):
        values = fields[name]
        if is_sparse and values.null_count == length:
            continue
        text = to_json_texts(values, is_sparse=is_sparse)
        if text is None:
            return None
        before, after = f"{orjson.dumps(name).decode()}:", ""
        if has_field:
            before = f",{before}"
        elif is_sparse and values.null_count:
            after = ","
        else:
            has_field = True
        if is_sparse and values.null_count:
            parts.append(pc.fill_null(pc.binary_join_element_wise(before, text, after, ""), ""))
        else:
            parts += [before, text]
    if has_field or len(parts) == 1:
        joined = pc.binary_join_element_wise(*parts, "}", pa.scalar("", pa.string()))
        return joined if len(parts) > 1 else pa.array(["{}"] * length, pa.string())
    joined = pc.binary_join_element_wise(*parts, "")
    return pc.binary_join_element_wise(pc.utf8_rtrim(joined, ","), "}", "")


def to_json_texts(values: pa.Array, *, is_sparse: bool = False) -> pa.Array | None:
    """Values as JSON, with sorted keys; None: not as the line decoder writes them.

    `is_sparse`: what is null has no text, and is left out of objects.
    """
    kind = values.type
    if pa.types.is_floating(kind):
        return None
    if pa.types.is_nested(kind):
        if not is_sparse and values.null_count:
            return None
        write = _object_texts if pa.types.is_struct(kind) else _list_texts
        texts = write(values, is_sparse=is_sparse)
        if texts is None or not values.null_count:
            return texts
        return pc.if_else(values.is_valid(), texts, None)
    texts = _text_to_json(values) if pa.types.is_string(kind) else values.cast(pa.string())
    return texts if is_sparse else pc.fill_null(texts, "null")


def _object_texts(values: pa.StructArray, *, is_sparse: bool) -> pa.Array | None:
    names = [field.name for field in values.type]
    fields = dict(zip(names, values.flatten(), strict=True))
    return _object_to_json(fields, len(values), is_sparse=is_sparse)


def _list_texts(values: pa.ListArray, *, is_sparse: bool) -> pa.Array | None:
    elements = to_json_texts(values.flatten(), is_sparse=is_sparse)
    if elements is None or values.flatten().null_count:
        return None
    texts = pa.ListArray.from_arrays(_offsets(values), elements)
    return pc.binary_join_element_wise("[", pc.binary_join(texts, ","), "]", "")


def _offsets(values: pa.ListArray) -> pa.Array:
    """Where the elements of each list begin among those of all."""
    lengths = pc.fill_null(pc.list_value_length(values), 0).to_numpy()
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


def _convert(values: pa.Array | None, kind: str, *, is_sparse: bool) -> pa.Array | None:
    if values is None:
        return None
    if values.null_count == len(values):
        return pa.nulls(len(values), ARROW_TYPES[kind])
    if pa.types.is_string(values.type):
        return _FROM_TEXTS[kind](values)
    if pa.types.is_nested(values.type):
        return to_json_texts(values, is_sparse=is_sparse) if kind == "string" else None
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
