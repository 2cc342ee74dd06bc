"""The ingest ledger: what was read of each source unit, stream and topic, and its compaction."""

from archiver.ingest.ledger.catalog import Catalog, Counters
from archiver.ingest.ledger.closed_keys import ClosedKeyLedger
from archiver.ingest.ledger.compaction import MIN_UNIT_AGE, LedgerCompaction
from archiver.ingest.ledger.lost_records import LostRecords, describe_losses, describe_range
from archiver.ingest.ledger.topics import LedgerTopic, TopicIdentity, TopicLedger

__all__ = [
    "MIN_UNIT_AGE",
    "Catalog",
    "ClosedKeyLedger",
    "Counters",
    "LedgerCompaction",
    "LedgerTopic",
    "LostRecords",
    "TopicIdentity",
    "TopicLedger",
    "describe_losses",
    "describe_range",
]
