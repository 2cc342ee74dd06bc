"""Decode records and Parquet tables to typed columns; many records at once with Arrow's readers."""

from archiver.ingest.decoding.block_decoder import decode_blocks
from archiver.ingest.decoding.csv_framing import are_plain_lines, named_delimiter
from archiver.ingest.decoding.csv_records import parse_csv_header, split_header
from archiver.ingest.decoding.event_times import parse_iso_time
from archiver.ingest.decoding.framing import BYTE_ORDER_MARK, Records, RecordSource
from archiver.ingest.decoding.joined_lines import find_joined_end
from archiver.ingest.decoding.json_records import dump_json, load_json
from archiver.ingest.decoding.line_decoder import decode_lines
from archiver.ingest.decoding.raw_records import decode_raw, select_raw
from archiver.ingest.decoding.record_parsers import parse_records
from archiver.ingest.decoding.records import (
    MAX_LINE_BYTES,
    DecodedRows,
    RefusalReason,
    RefusedLine,
)
from archiver.ingest.decoding.redacted_records import (
    redact_names,
    redact_records,
    redact_refused,
    redact_row,
    write_csv,
)
from archiver.ingest.decoding.table_decoder import RowsAsJson, decode_table
from archiver.ingest.decoding.time_advice import likely_format_lists, likely_units

__all__ = [
    "BYTE_ORDER_MARK",
    "MAX_LINE_BYTES",
    "DecodedRows",
    "Records",
    "RecordSource",
    "RefusalReason",
    "RefusedLine",
    "RowsAsJson",
    "are_plain_lines",
    "decode_blocks",
    "decode_lines",
    "decode_raw",
    "decode_table",
    "dump_json",
    "find_joined_end",
    "likely_format_lists",
    "likely_units",
    "load_json",
    "named_delimiter",
    "parse_csv_header",
    "split_header",
    "parse_iso_time",
    "parse_records",
    "redact_names",
    "redact_records",
    "redact_refused",
    "redact_row",
    "select_raw",
    "write_csv",
]
