"""Kafka topics: how far each is read, what was lost before it was read, what cannot be read now."""

from sql.topics.lost_records import LossReason, LostRecordsGateway, LostRecordsRow
from sql.topics.source_errors import SourceErrorGateway, SourceErrorKind, SourceErrorRow
from sql.topics.topics import PartitionRow, TopicGateway, TopicRow

__all__ = [
    "LossReason",
    "LostRecordsGateway",
    "LostRecordsRow",
    "PartitionRow",
    "SourceErrorGateway",
    "SourceErrorKind",
    "SourceErrorRow",
    "TopicGateway",
    "TopicRow",
]
