"""Delta tables: log, data files, row identities, and the tables of streams, events and contexts.

Modules of their own: `derived_tables` holds what concerns the tables of derived streams only,
`sequenced_table` the tables of events and of contexts, `summary_table` those of summaries.
"""

from archiver.delta import derived_tables
from archiver.delta.archive_tables import ArchiveTable, TableKind, list_tables
from archiver.delta.column_changes import (
    ColumnChanges,
    ColumnProblem,
    StoredColumn,
    find_altered_types,
    keeps_text,
    plan_column_changes,
)
from archiver.delta.column_rewrite import ColumnRewrite, RewriteProgress
from archiver.delta.data_files import NOTHING_SETTLED, SettledPlaces, TableFiles
from archiver.delta.declarations import TableDeclaration
from archiver.delta.declared_table import (
    read_altered_types,
    read_declaration,
    read_recorded_schema,
)
from archiver.delta.digests import compute_digest
from archiver.delta.erased_rows import ErasedRow, ErasedRows, hash_identity, hour_start, hours_of
from archiver.delta.erasures import Erasures, find_erasures
from archiver.delta.file_checks import (
    DamagedFile,
    ExpectedFile,
    FileCheck,
    check_file,
    check_files,
    list_expected,
    read_present_version,
)
from archiver.delta.file_identities import FileIdentities, look_up
from archiver.delta.files import is_compact, is_unclustered
from archiver.delta.generation import begin_generation
from archiver.delta.identity import (
    ENTRY_DTYPE,
    NO_LINE,
    IdentityIndex,
    add_archive_columns,
    build_entries,
    fingerprint,
    row_places,
)
from archiver.delta.log import ChunkFiles, DataFile
from archiver.delta.log_checks import DamagedLogFile, LogCheck, check_log, find_commit_damage
from archiver.delta.log_repair import LogRepair, plan_log_repair, remove_files, repair_log
from archiver.delta.protocol import NO_CHUNK
from archiver.delta.revision_table import ArchivedRevision, RevisionTables
from archiver.delta.row_ids import RowIds
from archiver.delta.schema import (
    APPEND_COLUMN,
    ARROW_TYPES,
    EXTRA_COLUMN,
    EarlierDeclaration,
    StreamSchema,
)
from archiver.delta.stored_bytes import TableBytes, TableMeasurement
from archiver.delta.table import RewriteFunction, StreamTable
from archiver.delta.table_version import (
    Commit,
    TableVersion,
    read_commits,
    read_newest_version,
    read_version,
)
from archiver.delta.vacuum import Vacuum

__all__ = [
    "add_archive_columns",
    "read_version",
    "read_newest_version",
    "read_commits",
    "list_tables",
    "TableVersion",
    "TableBytes",
    "TableKind",
    "TableMeasurement",
    "RowIds",
    "Commit",
    "ArchiveTable",
    "APPEND_COLUMN",
    "ARROW_TYPES",
    "ArchivedRevision",
    "ChunkFiles",
    "DamagedFile",
    "DamagedLogFile",
    "ErasedRow",
    "ErasedRows",
    "Erasures",
    "ExpectedFile",
    "FileCheck",
    "FileIdentities",
    "ColumnChanges",
    "ColumnProblem",
    "ColumnRewrite",
    "DataFile",
    "ENTRY_DTYPE",
    "EXTRA_COLUMN",
    "EarlierDeclaration",
    "IdentityIndex",
    "LogCheck",
    "LogRepair",
    "NOTHING_SETTLED",
    "NO_CHUNK",
    "NO_LINE",
    "RevisionTables",
    "RewriteFunction",
    "RewriteProgress",
    "SettledPlaces",
    "StoredColumn",
    "StreamSchema",
    "StreamTable",
    "TableDeclaration",
    "TableFiles",
    "Vacuum",
    "begin_generation",
    "build_entries",
    "check_file",
    "check_files",
    "check_log",
    "compute_digest",
    "derived_tables",
    "find_altered_types",
    "find_erasures",
    "hash_identity",
    "hour_start",
    "hours_of",
    "find_commit_damage",
    "fingerprint",
    "is_compact",
    "is_unclustered",
    "keeps_text",
    "list_expected",
    "look_up",
    "plan_column_changes",
    "plan_log_repair",
    "read_altered_types",
    "read_declaration",
    "read_present_version",
    "remove_files",
    "repair_log",
    "read_recorded_schema",
    "row_places",
]
