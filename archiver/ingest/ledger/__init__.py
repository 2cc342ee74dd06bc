"""The ingest ledger: what was read of each source unit, stream and partition, and its compaction."""

from archiver.ingest.ledger.catalog import Catalog, Counters
from archiver.ingest.ledger.compaction import MIN_UNIT_AGE, LedgerCompaction

__all__ = ["MIN_UNIT_AGE", "Catalog", "Counters", "LedgerCompaction"]
