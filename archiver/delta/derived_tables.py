"""Derived streams in the archive: one table for each version of each, beside those of declared streams.

A chunk of a derived stream is computed whole and written whole, in the place of what is there: however often it is
done, its rows stand once.
"""

from collections.abc import Mapping
from datetime import timedelta

import pyarrow as pa

from archiver.delta.schema import ADDED_COLUMNS, ARROW_TYPES, StreamSchema
from archiver.delta.table import StreamTable
from archiver.errors import NotArchivable
from archiver.storage import StorageRoot, as_storage

# The time of a derived stream's rows.
TIME_COLUMN = "ts"
_TYPE_NAMES = {kind: name for name, kind in ARROW_TYPES.items()}


def version_root(root: StorageRoot, version: str) -> StorageRoot:
    """Where the tables of a version stand, below the archive's root."""
    return derived_root(root) / version


def derived_root(root: StorageRoot) -> StorageRoot:
    """Where those of all versions stand."""
    return root / "derived"


def open_table(root: StorageRoot, stream: str, version: str) -> StreamTable:
    """A table that is there."""
    place = version_root(root, version)
    fields = pa.schema(as_storage(place / "streams" / stream).open_table().schema().to_arrow())
    columns = {
        field.name: _TYPE_NAMES[field.type] for field in fields if field.name not in ADDED_COLUMNS
    }
    return StreamTable(place, _schema(stream, columns))


def open_or_create_table(
    root: StorageRoot, stream: str, version: str, rows: pa.Schema
) -> StreamTable:
    """The table for such rows, created when absent. Raises `NotArchivable`."""
    for field in rows:
        if field.type not in _TYPE_NAMES:
            raise NotArchivable(
                f"derived stream {stream}: column {field.name} is of a type that is not archived"
            )
    return StreamTable(
        version_root(root, version),
        _schema(stream, {field.name: _TYPE_NAMES[field.type] for field in rows}),
    )


def replace_chunk(table: StreamTable, rows: pa.Table, chunk: int) -> None:
    """All rows of a chunk, in the place of those that are there."""
    count = len(rows)
    added = {
        "_extra": pa.nulls(count, pa.string()),
        "_late": pa.repeat(pa.scalar(False), count),
        "_id": pa.repeat(pa.scalar(b"", pa.binary()), count),
        **{
            name: pa.repeat(pa.scalar(0, pa.int64()), count) for name in ("_hash", "_unit", "_line")
        },
        "chunk": pa.repeat(pa.scalar(chunk, pa.int32()), count),
    }
    for name, values in added.items():
        rows = rows.append_column(name, values)
    table.replace_chunk(rows, chunk)


def _schema(stream: str, columns: Mapping[str, str]) -> StreamSchema:
    return StreamSchema(stream, columns, TIME_COLUMN, None, (), timedelta(0), timedelta(0))
