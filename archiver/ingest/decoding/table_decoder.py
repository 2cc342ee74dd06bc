"""Convert Parquet tables to the declared columns, refusing each invalid row separately. No I/O."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from archiver.delta import ARROW_TYPES, StreamSchema
from archiver.errors import IncompatibleColumn
from archiver.ingest.decoding.line_decoder import (
    INT_LIMITS,
    MAX_EVENT_TIME,
    MIN_EVENT_TIME,
    DecodedRows,
    RefusedLine,
)


def decode_table(schema: StreamSchema, table: pa.Table, first: int) -> DecodedRows:
    """Decode the rows of a table, numbered from `first`. Raises `IncompatibleColumn`."""
    raw_rows = RowsAsJson(table)
    errors: dict[int, str] = {}
    columns: dict[str, pa.Array] = {}
    for name, kind in schema.columns.items():
        columns[name] = _convert_column(name, kind, table, errors)
    if schema.time:
        for index in _true_indices(pc.is_null(columns[schema.time])):
            errors.setdefault(index, f"column {schema.time}: event time is missing")
    refused = []
    for index, detail in sorted(errors.items()):
        refused.append(RefusedLine(first + index, "malformed", detail, raw_rows[index]))
    decoded = pa.table({**columns, "_extra": _extra_column(schema, table)})
    numbers = np.arange(first, first + len(table))
    if not errors:
        return DecodedRows(decoded, numbers, raw_rows, refused)
    valid = [index for index in range(len(table)) if index not in errors]
    positions = pa.array(valid, pa.int64())
    rows = RowsAsJson(table.take(positions))
    return DecodedRows(decoded.take(positions), numbers[valid], rows, refused)


class RowsAsJson(Sequence[bytes]):
    """The rows of a table as JSON objects, serialised on access: few rows are ever refused."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __len__(self) -> int:
        return len(self._table)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[bytes]: ...
    def __getitem__(self, index: int | slice) -> bytes | Sequence[bytes]:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(len(self)))]
        (row,) = self._table.slice(index, 1).to_pylist()
        return orjson.dumps(row, default=str, option=orjson.OPT_UTC_Z)


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind))


# By declared type: whether it accepts a type found in a file.
_ACCEPTED_TYPES: Mapping[str, Callable[[pa.DataType], bool]] = {
    "string": lambda kind: kinds.is_string(kind) or kinds.is_large_string(kind),
    "boolean": kinds.is_boolean,
    "int": kinds.is_integer,
    "bigint": kinds.is_integer,
    "float": _is_numeric,
    "double": _is_numeric,
    "date": kinds.is_date,
    "timestamp": kinds.is_timestamp,
}


def _convert_column(name: str, kind: str, table: pa.Table, errors: dict[int, str]) -> pa.Array:
    """A column in its declared type, null where a value does not fit: such rows go to `errors`."""
    if name not in table.column_names:
        return pa.nulls(len(table), ARROW_TYPES[kind])
    values = table[name].combine_chunks()
    if kinds.is_dictionary(values.type):
        values = values.dictionary_decode()
    if kinds.is_null(values.type):
        return pa.nulls(len(table), ARROW_TYPES[kind])
    if not _ACCEPTED_TYPES[kind](values.type):
        raise IncompatibleColumn(
            f"column {name}: type {values.type} of the file cannot be converted to {kind}"
        )
    try:
        if kind in INT_LIMITS:
            outside = _is_out_of_range(values, kind)
            for index in _true_indices(outside):
                detail = f"{values[index]} is out of range for type {kind}"
                errors.setdefault(index, f"column {name}: {detail}")
            values = pc.if_else(outside, pa.scalar(None, values.type), values)
        elif kind == "timestamp":
            return _convert_times(name, values, errors)
        return values.cast(ARROW_TYPES[kind], safe=kind not in ("float", "double"))
    except pa.ArrowInvalid as error:
        raise IncompatibleColumn(f"column {name}: {str(error)[:200]}") from error


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
    """Timestamps in UTC, truncated to microseconds; those without a time zone are taken as UTC."""
    in_micros = pa.timestamp("us", values.type.tz)
    micros = values.cast(in_micros, safe=values.type.unit != "ns").cast(pa.int64())
    low = pa.scalar(MIN_EVENT_TIME * 1_000_000)
    high = pa.scalar(MAX_EVENT_TIME * 1_000_000)
    outside = pc.or_(pc.less(micros, low), pc.greater(micros, high))
    for index in _true_indices(outside):
        errors.setdefault(index, f"column {name}: not between the years 1900 and 9999")
    return pc.if_else(outside, pa.scalar(None, pa.int64()), micros).cast(ARROW_TYPES["timestamp"])


def _extra_column(schema: StreamSchema, table: pa.Table) -> pa.Array:
    names = [name for name in table.column_names if name not in schema.columns]
    if not names:
        return pa.nulls(len(table), pa.string())
    option = orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z
    rows: list[dict[str, Any]] = table.select(names).to_pylist()
    extra = [orjson.dumps(row, default=str, option=option).decode() for row in rows]
    return pa.array(extra, pa.string())


def _true_indices(mask: pa.Array) -> Iterator[int]:
    return iter(pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist())
