"""Chunks, streams and the units that were archived, dead letters, relations."""

from sql.archive.chunks import ChunkGateway
from sql.archive.closed_keys import ClosedKeyGateway, ClosedKeyRow
from sql.archive.column_rewrites import (
    ColumnRewriteGateway,
    ColumnRewriteRow,
    RewriteState,
)
from sql.archive.dead_letters import DeadLetterGateway, DeadLetterRow, MarkedDeadLetterRow
from sql.archive.derived_chunks import DerivedChunkGateway
from sql.archive.erased_records import ErasedRecords, ErasedText
from sql.archive.erasures import LISTED, ErasedRowRow, ErasureGateway, ErasureRow
from sql.archive.file_checks import FileCheckGateway, FileCheckRow, FileProblemRow
from sql.archive.growing_files import GrowingFileGateway, GrowingFileRow
from sql.archive.lateness import LatenessGateway
from sql.archive.relations import (
    HeldRelationRow,
    RelationDeclarationRow,
    RelationGateway,
    RelationSourceRow,
)
from sql.archive.repairs import LostRowsRecord, RecordedUnitRow, RepairGateway
from sql.archive.retention import RetentionGateway
from sql.archive.set_aside import SetAsideGateway, SetAsideRow, Subject, SubjectKind
from sql.archive.skipped_records import SkippedRecordsGateway, SkippedRow
from sql.archive.source_tables import read_source_table
from sql.archive.stored_bytes import ALL_CHUNKS, StoredBytesGateway, StoredBytesRow
from sql.archive.stream_renames import StreamRename, StreamRenameGateway
from sql.archive.streams import ProgressRow, StreamGateway
from sql.archive.summaries import SummaryGateway, SummaryRow
from sql.archive.units import (
    FileVersionRow,
    FinishedUnitRow,
    InterruptedUnitRow,
    LedgerRow,
    OpenedFileRow,
    RecordCounts,
    StreamCounts,
    UnitGateway,
)
from sql.archive.unread_input import UnreadInputGateway, UnreadInputRow

__all__ = [
    "ALL_CHUNKS",
    "ChunkGateway",
    "ClosedKeyGateway",
    "ClosedKeyRow",
    "ColumnRewriteGateway",
    "ColumnRewriteRow",
    "DeadLetterGateway",
    "DeadLetterRow",
    "DerivedChunkGateway",
    "ErasedRecords",
    "ErasedRowRow",
    "ErasedText",
    "ErasureGateway",
    "ErasureRow",
    "FileCheckGateway",
    "FileCheckRow",
    "FileProblemRow",
    "FileVersionRow",
    "FinishedUnitRow",
    "GrowingFileGateway",
    "GrowingFileRow",
    "HeldRelationRow",
    "InterruptedUnitRow",
    "LISTED",
    "LatenessGateway",
    "LedgerRow",
    "LostRowsRecord",
    "MarkedDeadLetterRow",
    "OpenedFileRow",
    "ProgressRow",
    "RecordCounts",
    "RecordedUnitRow",
    "RelationDeclarationRow",
    "RelationGateway",
    "RelationSourceRow",
    "RepairGateway",
    "RetentionGateway",
    "RewriteState",
    "SetAsideGateway",
    "SetAsideRow",
    "SkippedRecordsGateway",
    "SkippedRow",
    "StreamCounts",
    "StreamGateway",
    "StreamRename",
    "StreamRenameGateway",
    "StoredBytesGateway",
    "StoredBytesRow",
    "SummaryGateway",
    "SummaryRow",
    "Subject",
    "SubjectKind",
    "UnitGateway",
    "UnreadInputGateway",
    "UnreadInputRow",
    "read_source_table",
]
