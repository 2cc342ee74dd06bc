"""Convert Parquet tables to the declared columns, refusing each invalid row separately. No I/O."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, overload

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from archiver.delta import ARROW_TYPES, StreamSchema
from archiver.errors import IncompatibleColumn, InvalidValue
from archiver.formats import redact_table
from archiver.ingest.decoding.event_times import END_OF_EVENT_TIME, MIN_EVENT_TIME
from archiver.ingest.decoding.numbers import INT_LIMITS, JsonNumber, to_float, to_integer
from archiver.ingest.decoding.records import DecodedRows, RefusedLine


def decode_table(schema: StreamSchema, table: pa.Table, first: int) -> DecodedRows:
    """Decode the rows of a table, numbered from `first`. Raises `IncompatibleColumn`."""
    raw_rows = RowsAsJson(table)
    errors: dict[int, str] = {}
    columns: dict[str, pa.Array] = {}
    for name, kind in schema.columns.items():
        columns[name] = pa.nulls(len(table), ARROW_TYPES[kind])
        for field in schema.present_fields(name, table.column_names):
            columns[name] = _fill_nulls(columns[name], name, kind, table[field], errors)
    if schema.time:
        for index in _true_indices(pc.is_null(columns[schema.time])):
            errors.setdefault(index, f"column {schema.time}: event time is missing")
    refused = []
    for index, detail in sorted(errors.items()):
        refused.append(RefusedLine(first + index, "malformed", detail, raw_rows[index]))
    extra = _extra_column(schema, table)
    decoded = redact_table(pa.table({**columns, "_extra": extra}), schema.redactions)
    numbers = np.arange(first, first + len(table))
    if not errors:
        return DecodedRows(decoded, numbers, raw_rows, refused)
    valid = [index for index in range(len(table)) if index not in errors]
    decoded = decoded.take(pa.array(valid, pa.int64()))
    return DecodedRows(decoded, numbers[valid], raw_rows.take(valid), refused)


class RowsAsJson(Sequence[bytes]):
    """The rows of a table as JSON objects, serialised on access: few rows are ever refused."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __len__(self) -> int:
        return len(self.table)

    def take(self, positions: Sequence[int]) -> "RowsAsJson":
        """Some of the rows."""
        return RowsAsJson(self.table.take(pa.array(positions, pa.int64())))

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        (row,) = _python_rows(self.table.slice(index, 1))
        return orjson.dumps(row, default=str, option=orjson.OPT_UTC_Z)


def _python_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows; times that Python's calendar lacks are numbers of their unit since 1970."""
    columns: dict[str, list[Any]] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            columns[name] = column.to_pylist()
        except (OverflowError, ValueError):
            columns[name] = column.cast(pa.int64()).to_pylist()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind))


_UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_MIN_INT64 = -(2**63)
_MAX_INT64 = 2**63 - 1

# By declared type: whether it accepts a type found in a file.
_ACCEPTED_TYPES: Mapping[str, Callable[[pa.DataType], bool]] = {
    "string": lambda kind: kinds.is_string(kind) or kinds.is_large_string(kind),
    "boolean": kinds.is_boolean,
    "int": _is_numeric,
    "bigint": _is_numeric,
    "float": _is_numeric,
    "double": _is_numeric,
    "date": kinds.is_date,
    "timestamp": kinds.is_timestamp,
}


def _fill_nulls(
    converted: pa.Array, name: str, kind: str, column: pa.ChunkedArray, errors: dict[int, str]
) -> pa.Array:
    """A column whose nulls are filled from another field; see `_convert_column`."""
    if converted.null_count == len(converted):
        return _convert_column(name, kind, column, errors)
    field_errors: dict[int, str] = {}
    filling = _convert_column(name, kind, column, field_errors)
    is_null = pc.is_null(converted)
    for index in _true_indices(is_null):
        if index in field_errors:
            errors.setdefault(index, field_errors[index])
    return pc.if_else(is_null, filling, converted)


def _convert_column(
    name: str, kind: str, column: pa.ChunkedArray, errors: dict[int, str]
) -> pa.Array:
    """A column in its declared type, null where a value does not fit: such rows go to `errors`."""
    values = column.combine_chunks()
    if kinds.is_dictionary(values.type):
        values = values.dictionary_decode()
    if kinds.is_null(values.type):
        return pa.nulls(len(values), ARROW_TYPES[kind])
    if not _ACCEPTED_TYPES[kind](values.type):
        raise IncompatibleColumn(
            f"column {name}: type {values.type} of the file cannot be converted to {kind}"
        )
    try:
        if kind in INT_LIMITS or kind in ("float", "double"):
            return _convert_numbers(name, kind, values, errors)
        if kind == "timestamp":
            return _convert_times(name, values, errors)
        return values.cast(ARROW_TYPES[kind])
    except pa.ArrowInvalid as error:
        raise IncompatibleColumn(f"column {name}: {str(error)[:200]}") from error


def _convert_numbers(name: str, kind: str, values: pa.Array, errors: dict[int, str]) -> pa.Array:
    """Numbers in the declared type; those that Arrow would change are converted one by one."""
    if kinds.is_float16(values.type):
        values = values.cast(pa.float32())
    is_irregular = _is_irregular(values, kind)
    regular = pc.if_else(is_irregular, pa.scalar(None, values.type), values)
    if kinds.is_decimal(values.type):
        converted = pa.nulls(len(values), ARROW_TYPES[kind])
    else:
        converted = regular.cast(ARROW_TYPES[kind], safe=False)
    indices = list(_true_indices(is_irregular))
    if not indices:
        return converted
    numbers = converted.to_pylist()
    for index in indices:
        try:
            numbers[index] = _convert_number(values[index].as_py(), kind)
        except InvalidValue as error:
            errors.setdefault(index, f"column {name}: {error}")
    return pa.array(numbers, ARROW_TYPES[kind])


def _is_irregular(values: pa.Array, kind: str) -> pa.Array:
    """Mask of the numbers that a cast may change, but for rounding to the nearest float."""
    if kinds.is_decimal(values.type):
        return pc.is_valid(values)
    if kind in INT_LIMITS:
        if kinds.is_integer(values.type):
            return _is_out_of_range(values, kind)
        numbers = values.cast(pa.float64())
        limit = float(INT_LIMITS[kind])
        is_fitting = pc.and_(pc.greater_equal(numbers, -limit), pc.less(numbers, limit))
        return pc.invert(pc.and_(is_fitting, pc.equal(numbers, pc.trunc(numbers))))
    if not kinds.is_floating(values.type):
        return pa.array(np.zeros(len(values), bool))
    rounded = values.cast(ARROW_TYPES[kind], safe=False)
    return pc.and_(pc.is_inf(rounded), pc.is_finite(values))


def _convert_number(number: int | float | Decimal, kind: str) -> int | float:
    exact = JsonNumber(number) if isinstance(number, Decimal) else number
    return to_integer(exact, kind) if kind in INT_LIMITS else to_float(exact, kind)


def _is_out_of_range(values: pa.Array, kind: str) -> pa.Array:
    """Mask of the integers that do not fit the declared integer type."""
    limit = INT_LIMITS[kind]
    if kinds.is_unsigned_integer(values.type):
        return pc.greater(values.cast(pa.uint64()), pa.scalar(limit - 1, pa.uint64()))
    wide = values.cast(pa.int64())
    return pc.or_(
        pc.less(wide, pa.scalar(-limit, pa.int64())),
        pc.greater(wide, pa.scalar(limit - 1, pa.int64())),
    )


def _convert_times(name: str, values: pa.Array, errors: dict[int, str]) -> pa.Array:
    """Timestamps in UTC, cut to microseconds; those without a time zone are taken as UTC."""
    per_second = _UNITS_PER_SECOND[values.type.unit]
    units = values.cast(pa.int64())
    low = max(MIN_EVENT_TIME * per_second, _MIN_INT64)
    high = min(END_OF_EVENT_TIME * per_second - 1, _MAX_INT64)
    outside = pc.or_(pc.less(units, low), pc.greater(units, high))
    for index in _true_indices(outside):
        errors.setdefault(index, f"column {name}: not between the years 1900 and 9999")
    is_null = pc.fill_null(outside, True).to_numpy(zero_copy_only=False)
    numbers = np.where(is_null, 0, pc.fill_null(units, 0).to_numpy())
    # Rounds down, as the cut text of a time before 1970.
    micros = numbers // (per_second // 1_000_000 or 1) * (1_000_000 // per_second or 1)
    return pa.array(micros, pa.int64(), mask=is_null).cast(ARROW_TYPES["timestamp"])


def _extra_column(schema: StreamSchema, table: pa.Table) -> pa.Array:
    names = schema.undeclared_fields(table.column_names)
    if not names:
        return pa.nulls(len(table), pa.string())
    option = orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z
    rows = _python_rows(table.select(names))
    extra = [orjson.dumps(row, default=str, option=option).decode() for row in rows]
    return pa.array(extra, pa.string())


def _true_indices(mask: pa.Array) -> Iterator[int]:
    return iter(pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist())
