"""How rows lie in a file: small and quick to write where they have just come, clustered where they stay."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from archiver.delta.schema import APPEND_COLUMN, IDENTITY_COLUMNS, StreamSchema

# Rows between which a reader can skip, by key and time.
_ROW_GROUP_SIZE = 20_000


def write_rows(schema: StreamSchema, rows: pa.Table, path: Path, clustered: bool) -> None:
    """Write rows of the table to a new file.

    `clustered`: sorted by key and time, in groups with statistics of both. Otherwise the file is as small as can be:
    in order of arrival, without statistics, without the number of the append, which its name has, and without the
    identities, which follow from the rows: they are more than half of the bytes, and are computed again when the file
    is clustered.
    """
    if clustered:
        rows = rows.sort_by(
            [(name, "ascending") for name in dict.fromkeys([*schema.key, schema.time])]
        )
    else:
        rows = rows.drop_columns([*IDENTITY_COLUMNS, APPEND_COLUMN])
    words = [field.name for field in rows.schema if pa.types.is_string(field.type)]
    whole = [
        f.name for f in rows.schema if pa.types.is_integer(f.type) or pa.types.is_timestamp(f.type)
    ]
    pq.write_table(
        rows,
        path,
        compression="zstd",
        use_dictionary=words,
        column_encoding=dict.fromkeys(
            (name for name in whole if name != "_hash"), "DELTA_BINARY_PACKED"
        ),
        write_statistics=[*schema.key, schema.time] if clustered else False,
        row_group_size=_ROW_GROUP_SIZE if clustered else max(len(rows), 1),
        store_schema=False,
    )


def cast_to_fields(rows: pa.Table, fields: Sequence[pa.Field]) -> pa.Table:
    """The fields of some rows in their types; what the rows lack is null."""
    columns = [
        rows[field.name].cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(len(rows), field.type)
        for field in fields
    ]
    return pa.table(columns, schema=pa.schema(list(fields)))
