"""Decode lines and Parquet tables to typed columns."""

from archiver.ingest.decoding.line_decoder import (
    DecodedRows,
    LineFormat,
    RefusalReason,
    RefusedLine,
    decode_lines,
    parse_csv_header,
)
from archiver.ingest.decoding.table_decoder import RowsAsJson, decode_table

__all__ = [
    "DecodedRows",
    "LineFormat",
    "RefusalReason",
    "RefusedLine",
    "RowsAsJson",
    "decode_lines",
    "decode_table",
    "parse_csv_header",
]
