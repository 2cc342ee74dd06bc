"""Data files of tables: their rows, and reading and writing those of a stream without its log."""

from archiver.delta.data_files.rows import (
    cast_to_fields,
    split_by_chunk,
    with_chunk_column,
    write_rows,
)
from archiver.delta.data_files.table_files import TableFiles, append_number

__all__ = [
    "TableFiles",
    "append_number",
    "cast_to_fields",
    "split_by_chunk",
    "with_chunk_column",
    "write_rows",
]
