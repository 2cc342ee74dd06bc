"""Ingest: decode, classify and append source units to the archive, each record once.

Two folders have front doors of their own: `archiver.ingest.decoding` decodes lines and tables,
`archiver.ingest.engines` archives batches in this process or on executors.
"""

from archiver.ingest.changed_lateness import hold_watermarks
from archiver.ingest.closed_keys import ClosedKeys
from archiver.ingest.decoding import (
    MAX_LINE_BYTES,
    RecordSource,
    dump_json,
    find_joined_end,
    likely_format_lists,
    likely_units,
    load_json,
    named_delimiter,
    parse_iso_time,
)
from archiver.ingest.first_rows import FirstRows
from archiver.ingest.ingest_result import IngestResult
from archiver.ingest.keys_ahead import KeyAhead
from archiver.ingest.lateness import LateRows, LateRule
from archiver.ingest.ledger import MIN_UNIT_AGE, Catalog, Counters, LedgerCompaction
from archiver.ingest.open_unit import OpenUnit
from archiver.ingest.punctuations import (
    Punctuations,
    find_punctuation_problem,
    take_punctuations,
)
from archiver.ingest.record_sample import sample_records
from archiver.ingest.redaction import redact_content
from archiver.ingest.source_files import (
    find_open_error,
    open_file,
    read_blocks,
    read_content,
    read_file_batches,
    read_lines,
    read_tables,
)
from archiver.ingest.source_text import (
    decode_text,
    find_encoding_mark,
    iterate_blocks,
    open_content,
    split_lines,
)
from archiver.ingest.source_units import (
    BATCH_RECORDS,
    OffsetRange,
    SourceUnit,
    csv_fields,
    read_batches,
)
from archiver.ingest.text_records import TextRecord, split_records
from archiver.ingest.watermarks import PartitionProgress, ReadProgress
from archiver.ingest.writer import ArchiveWriter

__all__ = [
    "ArchiveWriter",
    "BATCH_RECORDS",
    "Catalog",
    "ClosedKeys",
    "Counters",
    "FirstRows",
    "IngestResult",
    "KeyAhead",
    "LateRows",
    "LateRule",
    "LedgerCompaction",
    "MAX_LINE_BYTES",
    "MIN_UNIT_AGE",
    "OffsetRange",
    "OpenUnit",
    "PartitionProgress",
    "Punctuations",
    "hold_watermarks",
    "ReadProgress",
    "RecordSource",
    "SourceUnit",
    "TextRecord",
    "csv_fields",
    "decode_text",
    "dump_json",
    "find_encoding_mark",
    "find_joined_end",
    "find_open_error",
    "find_punctuation_problem",
    "iterate_blocks",
    "likely_format_lists",
    "likely_units",
    "load_json",
    "named_delimiter",
    "open_content",
    "open_file",
    "parse_iso_time",
    "read_batches",
    "read_blocks",
    "read_content",
    "read_file_batches",
    "read_lines",
    "read_tables",
    "redact_content",
    "sample_records",
    "split_lines",
    "split_records",
    "take_punctuations",
]
