"""Decode lines and Parquet tables to typed columns; many lines at once with Arrow's readers."""

from archiver.ingest.decoding.block_decoder import decode_blocks
from archiver.ingest.decoding.line_decoder import (
    MAX_LINE_BYTES,
    DecodedRows,
    LineFormat,
    RefusalReason,
    RefusedLine,
    decode_lines,
    parse_csv_header,
)
from archiver.ingest.decoding.raw_records import decode_raw, select_raw
from archiver.ingest.decoding.table_decoder import RowsAsJson, decode_table

__all__ = [
    "MAX_LINE_BYTES",
    "DecodedRows",
    "LineFormat",
    "RefusalReason",
    "RefusedLine",
    "RowsAsJson",
    "decode_blocks",
    "decode_lines",
    "decode_raw",
    "decode_table",
    "parse_csv_header",
    "select_raw",
]
