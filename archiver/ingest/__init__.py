"""Ingest: decode, classify and append source units to the archive, each record once."""

from archiver.ingest.decoding import DecodedRows, decode_lines, parse_csv_header
from archiver.ingest.ledger import MIN_UNIT_AGE, Catalog, LedgerCompaction
from archiver.ingest.source_units import BATCH_RECORDS, SourceUnit
from archiver.ingest.watermarks import PartitionProgress
from archiver.ingest.writer import ArchiveWriter, IngestResult

__all__ = [
    "ArchiveWriter",
    "BATCH_RECORDS",
    "Catalog",
    "DecodedRows",
    "IngestResult",
    "LedgerCompaction",
    "MIN_UNIT_AGE",
    "PartitionProgress",
    "SourceUnit",
    "decode_lines",
    "parse_csv_header",
]
