"""The control plane in PostgreSQL: connections, migrations, and one gateway for each noun.

This is the only package that imports psycopg. A gateway holds the statements of one file in
`queries/` and returns records; the caller owns the transaction (`connection.transaction()`).
"""

from sql.calibrations import CalibrationGateway
from sql.connection import Connection, ConnectionPool, connect
from sql.contexts import (
    ContextGateway,
    ContextRow,
    MissingContextRow,
    NewContextRow,
    UnrequestedEventRow,
    UnsettledContextRow,
)
from sql.corpora import CorpusGateway
from sql.deployments import DeploymentGateway, DeploymentRow
from sql.derived_chunks import DerivedChunkGateway
from sql.errors import (
    DatabaseError,
    DeadlockDetected,
    InterfaceError,
    OperationalError,
    SchemaTooNew,
)
from sql.judgements import FeedbackStateRow, JudgementGateway
from sql.loader import load
from sql.migrate import migrate
from sql.outbox import OutboxContextRow, OutboxEventRow, OutboxGateway
from sql.rule_errors import RuleErrorGateway
from sql.rule_files import RuleFileGateway
from sql.rules import RuleGateway
from sql.values import replace_nul
from sql.views import ViewGateway

__all__ = [
    "Connection",
    "ConnectionPool",
    "DatabaseError",
    "DeadlockDetected",
    "InterfaceError",
    "OperationalError",
    "SchemaTooNew",
    "connect",
    "load",
    "migrate",
    "replace_nul",
    # Contexts and corpora
    "ContextGateway",
    "ContextRow",
    "CorpusGateway",
    "MissingContextRow",
    "NewContextRow",
    "UnrequestedEventRow",
    "UnsettledContextRow",
    # Feedback
    "CalibrationGateway",
    "FeedbackStateRow",
    "JudgementGateway",
    # History of rules and derived streams
    "DerivedChunkGateway",
    "ViewGateway",
    # Outbox
    "OutboxContextRow",
    "OutboxEventRow",
    "OutboxGateway",
    # Rules, their deployments, files and errors
    "DeploymentGateway",
    "DeploymentRow",
    "RuleErrorGateway",
    "RuleFileGateway",
    "RuleGateway",
]
