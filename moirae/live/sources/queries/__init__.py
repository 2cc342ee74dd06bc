"""Streaming queries over files and topics."""

from moirae.live.sources.queries.number_query import NumberQuery
from moirae.live.sources.queries.pausable_query import PausableQuery
from moirae.live.sources.queries.streaming_queries import start_topic_query
from moirae.live.sources.queries.unread_records import UnreadRecordsCheck

__all__ = [
    "NumberQuery",
    "PausableQuery",
    "UnreadRecordsCheck",
    "start_topic_query",
]
