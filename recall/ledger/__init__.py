"""The recall ledger in PostgreSQL: tasks, leases, answers and their row revisions, commands."""

from recall.ledger.commands import (
    ACCELERATION_FACTOR,
    CommandExecutor,
    Effect,
    Target,
    fetch_effect,
    forecast_tasks,
    submit_command,
)
from recall.ledger.records import (
    Revision,
    SchedulingPolicy,
    Task,
    TaskProgress,
    TaskSpec,
    TurnResult,
)
from recall.ledger.revision_archive import RevisionArchive
from recall.ledger.row_revisions import (
    EventOutput,
    RevisionStreams,
    read_revisions,
)
from recall.ledger.tasks import LEASE_DURATION, Ledger, retry_on_deadlock

__all__ = [
    "ACCELERATION_FACTOR",
    "CommandExecutor",
    "Effect",
    "EventOutput",
    "LEASE_DURATION",
    "Ledger",
    "Revision",
    "RevisionArchive",
    "RevisionStreams",
    "SchedulingPolicy",
    "Target",
    "Task",
    "TaskProgress",
    "TaskSpec",
    "TurnResult",
    "fetch_effect",
    "forecast_tasks",
    "read_revisions",
    "retry_on_deadlock",
    "submit_command",
]
