"""The control plane in PostgreSQL: connections, migrations, and one gateway for each noun.

This is the only package that imports psycopg. A gateway holds the statements of one file in
`queries/` and returns records; the caller owns the transaction (`connection.transaction()`).
"""

from sql.commands import CommandGateway
from sql.connection import Connection, ConnectionPool, connect
from sql.errors import (
    DatabaseError,
    DataError,
    DeadlockDetected,
    InterfaceError,
    OperationalError,
    ProgramLimitExceeded,
    SchemaTooNew,
)
from sql.loader import load
from sql.migrate import migrate
from sql.replay import RepeatableRow, ReplayGateway
from sql.revisions import ExportedRecallRow, LastAnswerRow, RevisionGateway, RevisionRow
from sql.signals import SignalGateway, SignalListener
from sql.tasks import NewTask, Progress, TaskGateway, TaskRow, TaskSummaryRow
from sql.values import replace_nul

__all__ = [
    "Connection",
    "ConnectionPool",
    "DataError",
    "DatabaseError",
    "DeadlockDetected",
    "InterfaceError",
    "OperationalError",
    "ProgramLimitExceeded",
    "SchemaTooNew",
    "connect",
    "load",
    "migrate",
    "replace_nul",
    # The recall ledger
    "CommandGateway",
    "ExportedRecallRow",
    "LastAnswerRow",
    "NewTask",
    "Progress",
    "RepeatableRow",
    "ReplayGateway",
    "RevisionGateway",
    "RevisionRow",
    "SignalGateway",
    "SignalListener",
    "TaskGateway",
    "TaskRow",
    "TaskSummaryRow",
]
