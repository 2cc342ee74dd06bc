"""Values of records, as parsed, in the declared types: all at once, or one by one. No I/O."""

from collections.abc import Callable, Mapping
from datetime import date
from functools import partial
from typing import Any

import pyarrow as pa

from archiver.delta import ARROW_TYPES
from archiver.errors import InvalidValue
from archiver.ingest.decoding.event_times import TimeReader
from archiver.ingest.decoding.invalid_value import abbreviate
from archiver.ingest.decoding.json_records import dump_json, spell_float
from archiver.ingest.decoding.numbers import (
    JsonNumber,
    is_integer_text,
    numbers_from_floats,
    numbers_from_texts,
    to_float,
    to_integer,
)
from archiver.ingest.decoding.records import MAX_DETAIL_LENGTH

# Python types that Arrow converts to the declared type exactly as the functions in _CONVERTERS do.
_ARROW_INPUT_TYPES: dict[str, frozenset[type]] = {
    "string": frozenset({str, type(None)}),
    "boolean": frozenset({bool, type(None)}),
    "int": frozenset({int, type(None)}),
    "bigint": frozenset({int, type(None)}),
    "double": frozenset({float, int, type(None)}),
}

_NUMBER_TYPES = frozenset({"int", "bigint", "float", "double"})


def convert_with_arrow(values: list[Any], kind: str, times: TimeReader) -> pa.Array | None:
    """All values at once; None if Arrow's result could differ from the conversion one by one."""
    value_types = set(map(type, values))
    try:
        if value_types <= {float, type(None)} and kind in ("float", "double"):
            return numbers_from_floats(pa.array(values, pa.float64()), kind)
        if value_types <= _ARROW_INPUT_TYPES.get(kind, frozenset()):
            return pa.array(values, ARROW_TYPES[kind])
        if not value_types <= {str, type(None)}:
            return None
        if kind == "timestamp":
            return times.read_array(pa.array(values, pa.string()))
        if kind in _NUMBER_TYPES:
            return numbers_from_texts(pa.array(values, pa.string()), kind)
    except (pa.ArrowInvalid, OverflowError):
        return None
    return None


def convert_one_by_one(
    values: list[Any], kind: str, times: TimeReader
) -> tuple[pa.Array, dict[int, str]]:
    """The values as one array, and errors by index (null in the array)."""
    if kind == "timestamp":
        return times.read_values(values)
    convert = _CONVERTERS[kind]
    converted: list[Any] = []
    errors: dict[int, str] = {}
    for index, value in enumerate(values):
        try:
            converted.append(None if value is None else convert(value))
        except (ValueError, OverflowError) as error:
            converted.append(None)
            errors[index] = str(error)[:MAX_DETAIL_LENGTH]
    return pa.array(converted, ARROW_TYPES[kind]), errors


def _to_string(value: Any) -> str:
    if isinstance(value, JsonNumber) and not is_integer_text(value):
        value = float(value)
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return spell_float(value)
    return dump_json(value, sort_keys=True).decode()


def _to_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise InvalidValue(f"{abbreviate(value)} is not a boolean")


def _to_date(value: Any) -> date:
    if not isinstance(value, str):
        raise InvalidValue(f"{abbreviate(value)} is not a date")
    try:
        return date.fromisoformat(value.strip())
    except ValueError:
        raise InvalidValue(f"{abbreviate(value)} is not a date such as 2026-01-31") from None


_CONVERTERS: Mapping[str, Callable[[Any], Any]] = {
    "string": _to_string,
    "boolean": _to_boolean,
    "int": partial(to_integer, kind="int"),
    "bigint": partial(to_integer, kind="bigint"),
    "float": partial(to_float, kind="float"),
    "double": partial(to_float, kind="double"),
    "date": _to_date,
}
