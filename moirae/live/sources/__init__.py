"""Sources of records: files, Kafka topics, landing folders, and tables of relations."""

from moirae.live.sources.archiving import InputArchiving
from moirae.live.sources.file_input import FileInput
from moirae.live.sources.file_state import STABLE_AFTER
from moirae.live.sources.files import arrived_at, unit_name
from moirae.live.sources.growing import GrowingFileInput, find_range, read_part_name
from moirae.live.sources.idle import IdleTracker, SourceKey
from moirae.live.sources.idle_sources import IdleSources
from moirae.live.sources.landing import LandedBatches, LandingFolders
from moirae.live.sources.move_watcher import MoveWatcher
from moirae.live.sources.relation_file import FileRelationReader
from moirae.live.sources.relation_object import ObjectRelationReader
from moirae.live.sources.relation_rows import RelationContent, identity_columns
from moirae.live.sources.relation_table import TableRelationReader
from moirae.live.sources.sources import Sources
from moirae.live.sources.topics import PresentRange, TopicReaders, TopicRereading

__all__ = [
    "FileInput",
    "GrowingFileInput",
    "arrived_at",
    "FileRelationReader",
    "IdleSources",
    "IdleTracker",
    "InputArchiving",
    "LandedBatches",
    "LandingFolders",
    "MoveWatcher",
    "ObjectRelationReader",
    "RelationContent",
    "STABLE_AFTER",
    "SourceKey",
    "Sources",
    "TableRelationReader",
    "TopicReaders",
    "TopicRereading",
    "PresentRange",
    "find_range",
    "read_part_name",
    "unit_name",
    "identity_columns",
]
