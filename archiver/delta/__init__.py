"""Delta tables: log, data files, row identities, and the tables of streams, events and contexts.

`derived_tables` holds what concerns the tables of derived streams only.
"""

from archiver.delta import derived_tables
from archiver.delta.data_files import TableFiles
from archiver.delta.identity import ENTRY_DTYPE, IdentityIndex, build_entries, fingerprint
from archiver.delta.log import ChunkFiles, DataFile
from archiver.delta.revision_table import ArchivedRevision, RevisionTables
from archiver.delta.schema import APPEND_COLUMN, ARROW_TYPES, StreamSchema
from archiver.delta.sequenced_table import (
    COMMIT_ROWS,
    CONTEXTS,
    EVENTS,
    SequencedTable,
    TableSpec,
    should_commit,
)
from archiver.delta.table import RewriteFunction, StreamTable
from archiver.delta.vacuum import Vacuum

__all__ = [
    "APPEND_COLUMN",
    "ARROW_TYPES",
    "ArchivedRevision",
    "COMMIT_ROWS",
    "CONTEXTS",
    "ChunkFiles",
    "DataFile",
    "ENTRY_DTYPE",
    "EVENTS",
    "IdentityIndex",
    "RevisionTables",
    "RewriteFunction",
    "SequencedTable",
    "StreamSchema",
    "StreamTable",
    "TableFiles",
    "TableSpec",
    "Vacuum",
    "build_entries",
    "derived_tables",
    "fingerprint",
    "should_commit",
]
