"""Chunks of derived streams that this process writes."""

import pyarrow as pa

from archiver.delta import StreamTable
from archiver.delta.derived_tables import write_chunk


def replace_chunk(table: StreamTable, rows: pa.Table, chunk: int) -> None:
    """Replace all rows of a chunk. Raises `CommitConflict` if it changes meanwhile."""
    table.replace_chunk(lambda: list(write_chunk(table.files, chunk, rows.to_batches())), chunk)
