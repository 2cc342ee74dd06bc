"""Ingest: decode, classify and append source units to the archive, each record once."""

from archiver.ingest.decoding import DecodedRows, decode_lines, parse_csv_header
from archiver.ingest.engines import (
    ArchivedRows,
    EngineMode,
    EnginePolicy,
    IngestBatch,
    IngestEngine,
    IngestStats,
    RecordSizes,
    TopicRecords,
)
from archiver.ingest.ledger import MIN_UNIT_AGE, Catalog, Counters, LedgerCompaction
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
