"""Kafka topics: what the brokers say, what the ledger holds, and reading what is new."""

from moirae.live.sources.topics.readers import TopicReaders
from moirae.live.sources.topics.rereading import PresentRange, TopicRereading

__all__ = ["PresentRange", "TopicReaders", "TopicRereading"]
