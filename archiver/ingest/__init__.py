"""Ingest: decode, classify and append source units to the archive, each record once."""

from archiver.ingest.batch import (
    ArchivedRows,
    IngestBatch,
    IngestEngine,
    IngestStats,
    TopicRecords,
)
from archiver.ingest.catalog import Catalog, Counters
from archiver.ingest.engine_choice import EngineMode, EnginePolicy, RecordSizes
from archiver.ingest.ledger_compaction import MIN_UNIT_AGE, LedgerCompaction
from archiver.ingest.line_decoder import DecodedRows, decode_lines, parse_csv_header
from archiver.ingest.open_unit import OpenUnit
from archiver.ingest.source_files import read_lines, read_tables
from archiver.ingest.source_units import BATCH_RECORDS, SourceUnit
from archiver.ingest.watermarks import PartitionProgress
from archiver.ingest.writer import ArchiveWriter, IngestResult

__all__ = [
    "ArchiveWriter",
    "ArchivedRows",
    "BATCH_RECORDS",
    "Catalog",
    "Counters",
    "DecodedRows",
    "EngineMode",
    "EnginePolicy",
    "IngestBatch",
    "IngestEngine",
    "IngestResult",
    "IngestStats",
    "LedgerCompaction",
    "MIN_UNIT_AGE",
    "OpenUnit",
    "PartitionProgress",
    "RecordSizes",
    "SourceUnit",
    "TopicRecords",
    "decode_lines",
    "parse_csv_header",
    "read_lines",
    "read_tables",
]
