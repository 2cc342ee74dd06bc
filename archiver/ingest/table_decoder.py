"""Tables of a source (Parquet) become the declared columns; a row that does not fit is refused alone. Pure."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, overload

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from archiver.delta import ARROW_TYPES, StreamSchema
from archiver.errors import IncompatibleColumn
from archiver.ingest.line_decoder import (
    INT_LIMITS,
    MAX_EVENT_TIME,
    MIN_EVENT_TIME,
    DecodedRows,
    RefusedLine,
)


def decode_table(schema: StreamSchema, table: pa.Table, first: int) -> DecodedRows:
    """The rows of a table, numbered from `first`, as declared. Raises `Unfit`."""
    rows = RowsAsJson(table)
    bad: dict[int, str] = {}
    columns = {
        name: _convert_column(name, kind, table, bad) for name, kind in schema.columns.items()
    }
    if schema.time:
        for i in _true_indices(pc.is_null(columns[schema.time])):
            bad.setdefault(i, f"column {schema.time}: no event time")
    decoded = pa.table({**columns, "_extra": _extra_column(schema, table)})
    keep = [i for i in range(len(table)) if i not in bad]
    refused = [
        RefusedLine(first + i, "malformed", detail, rows[i]) for i, detail in sorted(bad.items())
    ]
    if bad:
        decoded = decoded.take(pa.array(keep, pa.int64()))
        rows = RowsAsJson(table.take(pa.array(keep, pa.int64())))
    return DecodedRows(decoded, [first + i for i in keep], rows, refused)


class RowsAsJson(Sequence[bytes]):
    """Rows as JSON objects, each made when it is asked for: few are ever refused."""

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
            return [self[i] for i in range(*index.indices(len(self)))]
        return orjson.dumps(
            self._table.slice(index, 1).to_pylist()[0], default=str, option=orjson.OPT_UTC_Z
        )


def _is_numeric(kind: pa.DataType) -> bool:
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind))


# Which types of a file a declared one takes.
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


def _convert_column(name: str, kind: str, table: pa.Table, bad: dict[int, str]) -> pa.Array:
    if name not in table.column_names:
        return pa.nulls(len(table), ARROW_TYPES[kind])
    values = table[name].combine_chunks()
    if kinds.is_dictionary(values.type):
        values = values.dictionary_decode()
    if kinds.is_null(values.type):
        return pa.nulls(len(table), ARROW_TYPES[kind])
    if not _ACCEPTED_TYPES[kind](values.type):
        raise IncompatibleColumn(f"column {name}: the file holds {values.type}, {kind} is declared")
    try:
        if kind in INT_LIMITS:
            outside = _is_out_of_range(values, kind)
            for i in _true_indices(outside):
                bad.setdefault(i, f"column {name}: {values[i]} does not fit {kind}")
            values = pc.if_else(outside, pa.scalar(None, values.type), values)
        elif kind == "timestamp":
            return _convert_times(name, values, bad)
        return values.cast(ARROW_TYPES[kind], safe=kind not in ("float", "double"))
    except pa.ArrowInvalid as error:
        raise IncompatibleColumn(f"column {name}: {str(error)[:200]}") from error


def _is_out_of_range(values: pa.Array, kind: str) -> pa.Array:
    limit = INT_LIMITS[kind]
    if kinds.is_unsigned_integer(values.type):
        return pc.greater(values.cast(pa.uint64()), pa.scalar(limit - 1, pa.uint64()))
    wide = values.cast(pa.int64())
    return pc.or_(
        pc.less(wide, pa.scalar(-limit, pa.int64())),
        pc.greater(wide, pa.scalar(limit - 1, pa.int64())),
    )


def _convert_times(name: str, values: pa.Array, bad: dict[int, str]) -> pa.Array:
    """Times in UTC, to the microsecond; without a zone they are UTC's."""
    micros = values.cast(pa.timestamp("us", values.type.tz), safe=values.type.unit != "ns").cast(
        pa.int64()
    )
    low, high = pa.scalar(MIN_EVENT_TIME * 1_000_000), pa.scalar(MAX_EVENT_TIME * 1_000_000)
    outside = pc.or_(pc.less(micros, low), pc.greater(micros, high))
    for i in _true_indices(outside):
        bad.setdefault(i, f"column {name}: not between the years 1900 and 9999")
    return pc.if_else(outside, pa.scalar(None, pa.int64()), micros).cast(ARROW_TYPES["timestamp"])


def _extra_column(schema: StreamSchema, table: pa.Table) -> pa.Array:
    names = [name for name in table.column_names if name not in schema.columns]
    if not names:
        return pa.nulls(len(table), pa.string())
    option = orjson.OPT_SORT_KEYS | orjson.OPT_UTC_Z
    rows: list[dict[str, Any]] = table.select(names).to_pylist()
    return pa.array(
        [orjson.dumps(row, default=str, option=option).decode() for row in rows], pa.string()
    )


def _true_indices(mask: pa.Array) -> Iterator[int]:
    return iter(pc.indices_nonzero(pc.fill_null(mask, False)).to_pylist())
