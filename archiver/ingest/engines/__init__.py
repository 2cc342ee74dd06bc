"""Engines of ingest: their interface, the choice between them, and the one of this process."""

from archiver.ingest.engines.batch import (
    ArchivedRows,
    ExecutorEngine,
    IngestBatch,
    IngestEngine,
    IngestStats,
    TopicRecords,
)
from archiver.ingest.engines.engine_choice import EngineMode, EngineName, EnginePolicy, RecordSizes
from archiver.ingest.engines.ingest_engines import IngestEngines
from archiver.ingest.engines.local_ingest import LocalIngest, decode_unit
from archiver.ingest.engines.stream_progress import RegisteredUnit, StreamProgress

__all__ = [
    "ArchivedRows",
    "StreamProgress",
    "EngineMode",
    "EngineName",
    "EnginePolicy",
    "IngestBatch",
    "IngestEngine",
    "IngestEngines",
    "IngestStats",
    "LocalIngest",
    "RecordSizes",
    "RegisteredUnit",
    "ExecutorEngine",
    "TopicRecords",
    "decode_unit",
]
