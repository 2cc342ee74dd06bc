"""Derived streams in the archive: one table for each version of each, beside those of declared streams.

A chunk of a derived stream is computed whole and written whole, in the place of what is there: however often it is
done, its rows stand once.
"""

from collections.abc import Mapping
from datetime import timedelta

import pyarrow as pa

from archiver.place import Root, at
from archiver.schema import ADDED, ARROW_TYPES, StreamSchema
from archiver.table import StreamTable

# The time of a derived stream's rows.
TIME = "ts"
_TYPES = {kind: name for name, kind in ARROW_TYPES.items()}


class NotArchivable(ValueError):
    """A column of a type that the archive does not keep."""


def root_of(root: Root, version: str) -> Root:
    """Where the tables of a version stand, below the archive's root."""
    return all_of(root) / version


def all_of(root: Root) -> Root:
    """Where those of all versions stand."""
    return root / "derived"


def opened(root: Root, stream: str, version: str) -> StreamTable:
    """A table that is there."""
    place = root_of(root, version)
    fields = pa.schema(at(place / "streams" / stream).table().schema().to_arrow())
    columns = {field.name: _TYPES[field.type] for field in fields if field.name not in ADDED}
    return StreamTable(place, _schema(stream, columns))


def made(root: Root, stream: str, version: str, rows: pa.Schema) -> StreamTable:
    """The table for such rows, created when absent. Raises `NotArchivable`."""
    for field in rows:
        if field.type not in _TYPES:
            raise NotArchivable(f"derived stream {stream}: column {field.name} is of a type that is not archived")
    return StreamTable(root_of(root, version), _schema(stream, {field.name: _TYPES[field.type] for field in rows}))


def write(table: StreamTable, rows: pa.Table, chunk: int) -> None:
    """All rows of a chunk, in the place of those that are there."""
    count = len(rows)
    added = {
        "_extra": pa.nulls(count, pa.string()),
        "_late": pa.repeat(pa.scalar(False), count),
        "_id": pa.repeat(pa.scalar(b"", pa.binary()), count),
        **{name: pa.repeat(pa.scalar(0, pa.int64()), count) for name in ("_hash", "_unit", "_line")},
        "chunk": pa.repeat(pa.scalar(chunk, pa.int32()), count),
    }
    for name, values in added.items():
        rows = rows.append_column(name, values)
    table.replace(rows, chunk)


def _schema(stream: str, columns: Mapping[str, str]) -> StreamSchema:
    return StreamSchema(stream, columns, TIME, None, (), timedelta(0), timedelta(0))
