"""Layout of data files: small and fast to write when rows arrive, clustered where they stay."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from archiver.delta.data_files.encodings import (
    Encodings,
    choose_encodings,
    compression_options,
)
from archiver.delta.data_files.settled_places import KeptPlaces
from archiver.delta.declarations import decode_declarations, encode_declarations
from archiver.delta.schema import APPEND_COLUMN, IDENTITY_COLUMNS, LINE_COLUMN, StreamSchema

Layout = Literal["arrived", "sorted", "compact"]
"""How a data file stores rows.

`arrived`: as small and fast to write as possible: in order of arrival, without statistics, without
the append number, which is in its name. `sorted`: of many rows that arrive together: sorted by key
and time, in row groups with statistics of both. `compact`: like that, of rows that stay, with the
encodings that take the fewest bytes.

None stores identities that follow from the row, see `archiver.delta.data_files.identities`.
"""

# Rows of a row group: readers skip row groups by key and time, and each stores its own dictionaries.
_ROW_GROUP_SIZE = 65_536
# Keys in the metadata of a file: the version of its form, and the declarations of its stream as it
# was written, by which identities are computed. Files of version 1 have no metadata.
_VERSION_KEY = "moirae.format"
_VERSION = "2"
_DECLARATIONS_KEY = "moirae.declarations"
# Which rows of a compact file keep their lines, see `KeptPlaces`.
_PLACES_KEY = "moirae.places"
# Columns that are left out of a file if they are NULL in all of its rows.
_OPTIONAL_COLUMNS = (*IDENTITY_COLUMNS, LINE_COLUMN)


def write_rows(schema: StreamSchema, rows: pa.Table, path: Path, layout: Layout) -> None:
    """Write rows of a stream's table to a new Parquet file."""
    rows = _without_empty_columns(rows)
    if layout == "arrived":
        rows = rows.drop_columns([APPEND_COLUMN])
        options = compression_options(_fast_encodings(rows), level=None)
        _write(rows, path, max(len(rows), 1), {}, write_statistics=False, **options)
        return
    cluster_columns = dict.fromkeys([*schema.key, schema.time])
    rows = rows.sort_by([(name, "ascending") for name in cluster_columns])
    options = compression_options(_fast_encodings(rows), level=None)
    if layout == "compact":
        options = compression_options(choose_encodings(rows))
    metadata = {_VERSION_KEY: _VERSION, _DECLARATIONS_KEY: encode_declarations(schema)}
    kept_places = KeptPlaces.of(rows) if LINE_COLUMN in rows.column_names else None
    if kept_places is not None:
        metadata[_PLACES_KEY] = kept_places.to_text()
    _write(rows, path, _ROW_GROUP_SIZE, metadata, write_statistics=list(cluster_columns), **options)


def _write(
    rows: pa.Table, path: Path, row_group_size: int, metadata: Mapping[str, str], **options: Any
) -> None:
    with pq.ParquetWriter(path, rows.schema, store_schema=False, **options) as writer:
        writer.write_table(rows, row_group_size)
        if metadata:
            writer.add_key_value_metadata(dict(metadata))


def count_place_bytes(path: Path, columns: Collection[str]) -> int:
    """The bytes of a local file that are not those of the user's `columns`: metadata included.

    Raises `OSError` and `pa.ArrowException`.
    """
    size = path.stat().st_size
    metadata = pq.read_metadata(path)
    for number in range(metadata.num_row_groups):
        row_group = metadata.row_group(number)
        for position in range(row_group.num_columns):
            column = row_group.column(position)
            if column.path_in_schema in columns:
                size -= column.total_compressed_size
    return int(size)


def read_file_schema(file: pq.ParquetFile, schema: StreamSchema) -> StreamSchema | None:
    """The declarations under which the rows of a file have their identities.

    `schema`: of the stream. None: of a file of version 1, which does not say.
    """
    text = (file.metadata.metadata or {}).get(_DECLARATIONS_KEY.encode())
    if text is None:
        return None
    return decode_declarations(replace(schema, measured=()), text.decode())


def read_kept_places(file: pq.ParquetFile) -> KeptPlaces | None:
    """Which rows of a file keep their lines; None: the file does not say."""
    text = (file.metadata.metadata or {}).get(_PLACES_KEY.encode())
    return None if text is None else KeptPlaces.parse(text)


def stores_some_identities(file: pq.ParquetFile) -> bool:
    """Whether the identities that a file stores may be those only that cannot be computed."""
    return _VERSION_KEY.encode() in (file.metadata.metadata or {})


def _without_empty_columns(rows: pa.Table) -> pa.Table:
    empty = [
        name
        for name in _OPTIONAL_COLUMNS
        if name in rows.column_names and rows[name].null_count == len(rows)
    ]
    return rows.drop_columns(empty)


def _fast_encodings(rows: pa.Table) -> Encodings:
    """Dictionaries for texts; differences where neighbours are close: whole numbers and times."""
    encodings = Encodings()
    for field in rows.schema:
        if pa.types.is_string(field.type):
            encodings.dictionary.append(field.name)
        elif field.name != "_hash" and (
            pa.types.is_integer(field.type) or pa.types.is_timestamp(field.type)
        ):
            encodings.others[field.name] = "DELTA_BINARY_PACKED"
    return encodings


def split_by_chunk(rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Split rows by their column `chunk`."""
    for chunk in pc.unique(rows["chunk"]).to_pylist():
        yield chunk, rows.filter(pc.equal(rows["chunk"], chunk))


def with_chunk_column(rows: pa.Table, chunk: int) -> pa.Table:
    """Append the column `chunk`, which is not stored in data files."""
    return rows.append_column("chunk", pa.repeat(pa.scalar(chunk, pa.int32()), len(rows)))


def cast_to_fields(rows: pa.Table, fields: Sequence[pa.Field]) -> pa.Table:
    """Select columns of a table and cast them. Columns that it lacks are null.

    Integers that a double cannot represent are rounded: whether there are any is checked before
    files are rewritten, and a reader does not stop because of them.
    """
    columns = []
    for field in fields:
        if field.name in rows.column_names:
            is_exact = not pa.types.is_floating(field.type)
            columns.append(rows[field.name].cast(field.type, safe=is_exact))
        else:
            columns.append(pa.nulls(len(rows), field.type))
    return pa.table(columns, schema=pa.schema(list(fields)))
