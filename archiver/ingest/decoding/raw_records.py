"""Decode records again from the bytes or rows that are kept beside the decoded rows. No I/O."""

from collections.abc import Sequence

from archiver.delta import StreamSchema
from archiver.errors import IncompatibleColumn
from archiver.formats import JSONL, RecordReading
from archiver.ingest.decoding.block_decoder import decode_blocks
from archiver.ingest.decoding.line_decoder import decode_lines
from archiver.ingest.decoding.records import DecodedRows
from archiver.ingest.decoding.table_decoder import RowsAsJson, decode_table

JSON_ROWS = RecordReading(JSONL)
"""How rows of tables are read where they were refused."""


def select_raw(raw: Sequence[bytes], positions: Sequence[int]) -> Sequence[bytes]:
    """Some of the records of `DecodedRows.raw`."""
    if isinstance(raw, RowsAsJson):
        return raw.take(positions)
    return [raw[position] for position in positions]


def decode_raw(schema: StreamSchema, raw: Sequence[bytes], reading: RecordReading) -> DecodedRows:
    """Decode the records of `DecodedRows.raw` under any declaration, numbered from 0.

    Rows of a table whose columns do not fit the declaration are left out.
    """
    if not isinstance(raw, RowsAsJson):
        return decode_blocks(schema, JSON_ROWS if reading.format.is_table else reading, raw, 0)
    try:
        return decode_table(schema, raw.table, 0)
    except IncompatibleColumn:
        return decode_lines(schema, JSON_ROWS, [], 0)
