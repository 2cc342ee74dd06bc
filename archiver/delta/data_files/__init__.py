"""Data files of tables: what a row looks like on disk, and reading and writing rows without a log.

Nothing else knows which columns a file stores beside the user's, how they are encoded, in which
version, and how the identity of a row is computed from the others.
"""

from archiver.delta.data_files.rows import (
    cast_to_fields,
    count_place_bytes,
    split_by_chunk,
    with_chunk_column,
    write_rows,
)
from archiver.delta.data_files.settled_places import NOTHING_SETTLED, SettledPlaces
from archiver.delta.data_files.table_files import IdentifiableRows, TableFiles, append_number

__all__ = [
    "IdentifiableRows",
    "NOTHING_SETTLED",
    "SettledPlaces",
    "TableFiles",
    "append_number",
    "cast_to_fields",
    "count_place_bytes",
    "split_by_chunk",
    "with_chunk_column",
    "write_rows",
]
