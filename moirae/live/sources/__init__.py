"""Sources of records: files, Kafka topics, landing folders, and tables of relations."""

from moirae.live.sources.idle import IdleTracker, SourceKey
from moirae.live.sources.idle_sources import IdleSources
from moirae.live.sources.landing import LandingFolders, make_landed_units, select_batches
from moirae.live.sources.relation_file import FileRelationReader
from moirae.live.sources.relation_table import TableRelationReader
from moirae.live.sources.source_queries import SourceQueries

__all__ = [
    "FileRelationReader",
    "IdleSources",
    "IdleTracker",
    "LandingFolders",
    "SourceKey",
    "SourceQueries",
    "TableRelationReader",
    "make_landed_units",
    "select_batches",
]
