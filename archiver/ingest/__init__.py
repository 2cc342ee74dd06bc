"""Ingest: decode, classify and append source units to the archive, each record once."""

from archiver.ingest.catalog import Catalog
from archiver.ingest.engine_choice import EnginePolicy
from archiver.ingest.ledger_compaction import MIN_UNIT_AGE, LedgerCompaction
from archiver.ingest.line_decoder import DecodedRows, decode_lines, parse_csv_header
from archiver.ingest.source_files import read_lines, read_tables
from archiver.ingest.source_units import BATCH_RECORDS, SourceUnit
from archiver.ingest.watermarks import PartitionProgress
from archiver.ingest.writer import ArchiveWriter, IngestResult

__all__ = [
    "ArchiveWriter",
    "BATCH_RECORDS",
    "Catalog",
    "DecodedRows",
    "EnginePolicy",
    "IngestResult",
    "LedgerCompaction",
    "MIN_UNIT_AGE",
    "PartitionProgress",
    "SourceUnit",
    "decode_lines",
    "parse_csv_header",
    "read_lines",
    "read_tables",
]
