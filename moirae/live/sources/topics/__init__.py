"""Kafka topics: what the brokers say, what the ledger holds, and reading what is new."""

from moirae.live.sources.topics.archiving import RecordIngest, TopicArchiving
from moirae.live.sources.topics.readers import TopicReaders

__all__ = ["RecordIngest", "TopicArchiving", "TopicReaders"]
