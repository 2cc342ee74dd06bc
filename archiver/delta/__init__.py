"""Delta tables: log, data files, row identities, and the tables of streams, events and contexts."""

from archiver.delta.derived_tables import (
    TIME_COLUMN,
    derived_root,
    open_or_create_table,
    open_table,
    replace_chunk,
    version_root,
)
from archiver.delta.identity import Array, IdentityIndex, build_entries, fingerprint
from archiver.delta.log import ChunkFiles, DataFile
from archiver.delta.schema import APPEND_COLUMN, ARROW_TYPES, StreamSchema
from archiver.delta.sequenced_table import (
    COMMIT_ROWS,
    CONTEXTS,
    EVENTS,
    SequencedTable,
    TableSpec,
    should_commit,
)
from archiver.delta.table import StreamTable
from archiver.delta.vacuum import Vacuum

__all__ = [
    "APPEND_COLUMN",
    "ARROW_TYPES",
    "Array",
    "COMMIT_ROWS",
    "CONTEXTS",
    "ChunkFiles",
    "DataFile",
    "EVENTS",
    "IdentityIndex",
    "SequencedTable",
    "StreamSchema",
    "StreamTable",
    "TIME_COLUMN",
    "TableSpec",
    "Vacuum",
    "build_entries",
    "derived_root",
    "fingerprint",
    "open_or_create_table",
    "open_table",
    "replace_chunk",
    "should_commit",
    "version_root",
]
