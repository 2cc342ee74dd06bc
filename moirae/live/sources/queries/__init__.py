"""Streaming queries over files and topics, paused while there is no unread input."""

from moirae.live.sources.queries.pausable_query import PausableQuery
from moirae.live.sources.queries.streaming_queries import (
    glob_base,
    start_file_query,
    start_topic_query,
)
from moirae.live.sources.queries.unread_files import UnreadFilesCheck
from moirae.live.sources.queries.unread_objects import UnreadObjects
from moirae.live.sources.queries.unread_records import UnreadRecordsCheck

__all__ = [
    "PausableQuery",
    "UnreadFilesCheck",
    "UnreadObjects",
    "UnreadRecordsCheck",
    "glob_base",
    "start_file_query",
    "start_topic_query",
]
