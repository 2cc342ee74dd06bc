"""Layout of data files: small and fast to write when rows arrive, clustered where they stay."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from archiver.delta.schema import APPEND_COLUMN, IDENTITY_COLUMNS, StreamSchema

# Rows of a row group of a clustered file: readers skip row groups by key and time.
_ROW_GROUP_SIZE = 20_000


def write_rows(schema: StreamSchema, rows: pa.Table, path: Path, clustered: bool) -> None:
    """Write rows of a stream's table to a new Parquet file.

    `clustered`: sorted by key and time, in row groups with statistics of both. Otherwise the file
    is as small as possible: in order of arrival, without statistics, without the append number,
    which is in its name, and without the identities. Those are more than half of the bytes, and
    are computed again when the file is clustered; except those that are no function of the row.
    """
    options: dict[str, Any]
    if clustered:
        cluster_columns = dict.fromkeys([*schema.key, schema.time])
        rows = rows.sort_by([(name, "ascending") for name in cluster_columns])
        options = {
            "write_statistics": [*schema.key, schema.time],
            "row_group_size": _ROW_GROUP_SIZE,
        }
    else:
        computed = () if schema.is_identified_by_place else IDENTITY_COLUMNS
        rows = rows.drop_columns([*computed, APPEND_COLUMN])
        options = {"write_statistics": False, "row_group_size": max(len(rows), 1)}
    string_columns = []
    encodings = {}
    for field in rows.schema:
        if pa.types.is_string(field.type):
            string_columns.append(field.name)
        elif _is_delta_encoded(field):
            encodings[field.name] = "DELTA_BINARY_PACKED"
    pq.write_table(
        rows,
        path,
        compression="zstd",
        use_dictionary=string_columns,
        column_encoding=encodings,
        store_schema=False,
        **options,
    )


def _is_delta_encoded(field: pa.Field) -> bool:
    """Whether neighbouring values are close: whole numbers and times, but not hashes."""
    if field.name == "_hash":
        return False
    return bool(pa.types.is_integer(field.type) or pa.types.is_timestamp(field.type))


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
