"""The recall ledger in PostgreSQL: tasks, their leases and revisions, and commands of operators."""

from recall.ledger.commands import (
    ACCELERATION_FACTOR,
    CommandExecutor,
    Effect,
    Target,
    Verb,
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
from recall.ledger.tasks import LEASE_DURATION, Ledger, retry_on_deadlock

__all__ = [
    "ACCELERATION_FACTOR",
    "CommandExecutor",
    "Effect",
    "LEASE_DURATION",
    "Ledger",
    "Revision",
    "SchedulingPolicy",
    "Target",
    "Task",
    "TaskProgress",
    "TaskSpec",
    "TurnResult",
    "Verb",
    "fetch_effect",
    "forecast_tasks",
    "retry_on_deadlock",
    "submit_command",
]
