"""The recall ledger in PostgreSQL: tasks, leases, answers and their row revisions.

A module of its own, `recall.ledger.commands`, holds the commands of operators and their execution.
"""

from recall.ledger.records import (
    Revision,
    SchedulingPolicy,
    Task,
    TaskProgress,
    TaskSpec,
    TurnResult,
)
from recall.ledger.revision_archive import RevisionArchive, restart_archive
from recall.ledger.row_revisions import (
    EventOutput,
    RevisionStreams,
    read_revisions,
)
from recall.ledger.tasks import LEASE_DURATION, Ledger, retry_on_deadlock

__all__ = [
    "EventOutput",
    "LEASE_DURATION",
    "Ledger",
    "Revision",
    "RevisionArchive",
    "RevisionStreams",
    "SchedulingPolicy",
    "Task",
    "TaskProgress",
    "TaskSpec",
    "TurnResult",
    "read_revisions",
    "restart_archive",
    "retry_on_deadlock",
]
