"""The control plane in PostgreSQL: connections, migrations, and one gateway for each noun.

This is the only package that imports psycopg. A gateway holds the statements of one file in
`queries/` and returns records; the caller owns the transaction (`connection.transaction()`).
"""

from sql.alert_notes import AlertNoteGateway, AlertNoteRow
from sql.alerts import (
    AlertDescriptionRow,
    AlertGateway,
    AlertLifetimeRow,
    AlertRow,
    OpenAlertRow,
    RaisedAlertRow,
)
from sql.calibrations import CalibrationGateway
from sql.chunks import ChunkGateway
from sql.commands import CommandGateway
from sql.connection import Connection, connect
from sql.contexts import (
    ContextGateway,
    ContextRow,
    NewContextRow,
    RecallEventRow,
    RecallOfVersion,
    UnrequestedEventRow,
)
from sql.corpora import CorpusGateway
from sql.dead_letters import DeadLetterGateway, DeadLetterRow, MarkedDeadLetterRow
from sql.demo import DemoGateway
from sql.deployments import DeploymentGateway, DeploymentRow
from sql.derived_chunks import DerivedChunkGateway
from sql.errors import (
    DatabaseError,
    DataError,
    DeadlockDetected,
    InterfaceError,
    OperationalError,
    ProgramLimitExceeded,
    SchemaTooNew,
)
from sql.events import EventGateway, NewEventRow, StoredEventRow
from sql.idempotency_keys import IdempotencyKeyGateway
from sql.judgements import FeedbackStateRow, JudgementGateway
from sql.lookup import LookupGateway
from sql.migrate import migrate
from sql.outbox import OutboxContextRow, OutboxEventRow, OutboxGateway
from sql.pool import ConnectionPool, open_pool
from sql.processes import ProcessGateway, ProcessRow
from sql.recalled_events import RecalledEventGateway, RecalledEventRow
from sql.relations import RelationGateway
from sql.replay import RepeatableRow, ReplayGateway
from sql.retention import RetentionGateway
from sql.revisions import AnswerJson, AnswerRow, ExportedRecallRow, LastAnswerRow, RevisionGateway
from sql.row_revisions import (
    RevisionStreamRow,
    RowRevisionGateway,
    RowRevisionRow,
    StageRow,
)
from sql.rule_errors import RuleErrorGateway
from sql.rule_files import RuleFileGateway
from sql.rules import RuleGateway
from sql.signals import SignalGateway, SignalListener
from sql.source_tables import read_source_table
from sql.streams import StreamGateway
from sql.tasks import (
    NewTask,
    Progress,
    Read,
    RemainingWorkRow,
    TaskGateway,
    TaskRow,
    TaskSummaryRow,
)
from sql.tokens import TokenGateway
from sql.units import LedgerRow, RecordCounts, StreamCounts, UnitGateway
from sql.values import replace_nul
from sql.views import ViewGateway

__all__ = [
    "AnswerRow",
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
    "migrate",
    "open_pool",
    "replace_nul",
    # Chunks
    "ChunkGateway",
    # Dead letters
    "DeadLetterGateway",
    "DeadLetterRow",
    "MarkedDeadLetterRow",
    # Idempotency keys
    "IdempotencyKeyGateway",
    # Relations
    "RelationGateway",
    "read_source_table",
    # Retention
    "RetentionGateway",
    # Streams
    "StreamGateway",
    # Source units
    "LedgerRow",
    "RecordCounts",
    "StreamCounts",
    "UnitGateway",
    # Alerts
    "AlertDescriptionRow",
    "AlertGateway",
    "AlertLifetimeRow",
    "AlertNoteGateway",
    "AlertNoteRow",
    "AlertRow",
    "OpenAlertRow",
    "RaisedAlertRow",
    # Events
    "EventGateway",
    "NewEventRow",
    "StoredEventRow",
    # Lookup by ID
    "LookupGateway",
    # Processes
    "ProcessGateway",
    "ProcessRow",
    # The demo
    "DemoGateway",
    # Tokens
    "TokenGateway",
    # Contexts and corpora
    "ContextGateway",
    "ContextRow",
    "CorpusGateway",
    "NewContextRow",
    "RecallEventRow",
    "RecallOfVersion",
    "UnrequestedEventRow",
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
    # The recall ledger
    "AnswerJson",
    "CommandGateway",
    "ExportedRecallRow",
    "LastAnswerRow",
    "NewTask",
    "Progress",
    "Read",
    "RemainingWorkRow",
    "RepeatableRow",
    "ReplayGateway",
    "RevisionGateway",
    "RecalledEventGateway",
    "RecalledEventRow",
    "RevisionStreamRow",
    "RowRevisionGateway",
    "RowRevisionRow",
    "StageRow",
    "SignalGateway",
    "SignalListener",
    "TaskGateway",
    "TaskRow",
    "TaskSummaryRow",
]
