"""The recall ledger in PostgreSQL: tasks, leases, answers and their row revisions.

A module of its own, `recall.ledger.commands`, holds the commands of operators and their execution.
"""

from recall.ledger.piece_lists import ChunkRanges, expand_pieces
from recall.ledger.records import (
    Revision,
    SchedulingPolicy,
    Task,
    TaskProgress,
    TaskSpec,
    TurnResult,
)
from recall.ledger.revision_archive import RevisionArchive, restart_archive
from recall.ledger.revision_reader import RevisionReader, read_revisions
from recall.ledger.row_revisions import EventOutput, RevisionStreams
from recall.ledger.tasks import LEASE_DURATION, Ledger, retry_on_deadlock
from recall.ledger.trimming import closed_chunks

__all__ = [
    "ChunkRanges",
    "EventOutput",
    "LEASE_DURATION",
    "Ledger",
    "Revision",
    "RevisionArchive",
    "RevisionReader",
    "RevisionStreams",
    "SchedulingPolicy",
    "Task",
    "TaskProgress",
    "TaskSpec",
    "TurnResult",
    "closed_chunks",
    "expand_pieces",
    "read_revisions",
    "restart_archive",
    "retry_on_deadlock",
]
