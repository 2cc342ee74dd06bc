"""Tables of derived streams: one for each version of each stream, apart from declared streams.

A chunk of a derived stream is computed and written as a whole, and replaces its previous rows, so
that repeating it changes nothing.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta

import pyarrow as pa

from archiver.delta.data_files import TableFiles
from archiver.delta.files import DataFile
from archiver.delta.schema import ADDED_COLUMNS, ARROW_TYPES, StreamSchema
from archiver.delta.table import StreamTable
from archiver.errors import NotArchivable
from archiver.storage import StorageRoot, as_storage

# The event time column of every derived stream.
TIME_COLUMN = "ts"
_FILE_ROWS = 200_000  # rows of a data file, which its writer holds
_TYPE_NAMES = {arrow_type: name for name, arrow_type in ARROW_TYPES.items()}


def version_root(root: StorageRoot, version: str) -> StorageRoot:
    """The archive root of the tables of one version."""
    return derived_root(root) / version


def derived_root(root: StorageRoot) -> StorageRoot:
    """The folder of all versions."""
    return root / "derived"


def open_table(root: StorageRoot, stream: str, version: str) -> StreamTable:
    """Open an existing table. Raises `TableNotFoundError`."""
    archive = version_root(root, version)
    delta_table = as_storage(archive / "streams" / stream).open_table()
    columns: dict[str, str] = {}
    for field in pa.schema(delta_table.schema().to_arrow()):
        if field.name not in ADDED_COLUMNS:
            columns[field.name] = _TYPE_NAMES[field.type]
    return StreamTable(archive, _stream_schema(stream, columns))


def open_or_create_table(
    root: StorageRoot, stream: str, version: str, rows: pa.Schema
) -> StreamTable:
    """Open the table for rows of a schema; create it if it is absent. Raises `NotArchivable`."""
    columns: dict[str, str] = {}
    for field in rows:
        if field.type not in _TYPE_NAMES:
            raise NotArchivable(
                f"derived stream {stream}: column {field.name} has type {field.type}, which cannot "
                "be archived: cast it to another type"
            )
        columns[field.name] = _TYPE_NAMES[field.type]
    return StreamTable(version_root(root, version), _stream_schema(stream, columns))


def write_chunk(
    files: TableFiles, chunk: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[DataFile]:
    """Write rows of a chunk, in files of about `_FILE_ROWS` rows. A task on an executor may do it.

    The files are durable, but no part of the table before their commit.
    """
    pending: list[pa.RecordBatch] = []
    for batch in batches:
        pending.append(batch)
        if sum(map(len, pending)) >= _FILE_ROWS:
            yield files.write_derived(chunk, pa.Table.from_batches(pending))
            pending = []
    if any(map(len, pending)):
        yield files.write_derived(chunk, pa.Table.from_batches(pending))


def _stream_schema(stream: str, columns: Mapping[str, str]) -> StreamSchema:
    return StreamSchema(
        name=stream,
        columns=columns,
        time=TIME_COLUMN,
        id=None,
        key=(),
        lateness=timedelta(0),
        future=timedelta(0),
    )
