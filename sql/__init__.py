"""The control plane in PostgreSQL: connections, migrations, and one gateway for each noun.

This is the only package that imports psycopg. A gateway holds the statements of one file in
`queries/` and returns records; the caller owns the transaction (`connection.transaction()`).
"""

from sql.alert_notes import AlertNoteGateway, AlertNoteRow
from sql.alerts import (
    AlertDescriptionRow,
    AlertFilter,
    AlertGateway,
    AlertLifetimeRow,
    AlertRow,
    NewAlert,
    OpenAlertRow,
    RaisedAlertRow,
)
from sql.audit import AuditGateway, AuditRow
from sql.calibrations import CalibrationGateway
from sql.changes import (
    ChangedAlertRow,
    ChangedRecallRow,
    ChangedStageRow,
    ChangeGateway,
    ChangePosition,
    ChangeRow,
    EventEndRow,
    RevisionRow,
)
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
    UnsettledContextRow,
)
from sql.corpora import CorpusGateway
from sql.dashboard import DashboardGateway
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
from sql.events import EventFilter, EventGateway, NewEventRow, StoredEventRow
from sql.idempotency_keys import IdempotencyKeyGateway
from sql.judgements import FeedbackStateRow, JudgementGateway, UnresolvedEventRow
from sql.learned_models import LearnedModelGateway, LearnedModelRow
from sql.lookup import LookupGateway
from sql.migrate import migrate
from sql.outbox import OutboxContextRow, OutboxEventRow, OutboxGateway
from sql.overview import (
    EventJudgementRow,
    OccurrenceRow,
    OverviewGateway,
    RuleFiguresRow,
)
from sql.pool import ConnectionPool, open_pool
from sql.processes import ProcessGateway, ProcessRow
from sql.recalled_events import (
    HistoryChangeRow,
    NewStageRow,
    RecalledEventGateway,
    RecalledEventRow,
)
from sql.relations import RelationGateway
from sql.replay import RepeatableRow, ReplayGateway
from sql.retention import RetentionGateway
from sql.revisions import (
    AnswerJson,
    AnswerRow,
    ExportedRecallRow,
    LastAnswerRow,
    NewRevisionRow,
    RevisionGateway,
)
from sql.row_revisions import (
    AppendedRevisions,
    ChangeJson,
    RevisionStreamRow,
    RowRevisionGateway,
    RowRevisionRow,
    StageRow,
    ValidRow,
)
from sql.rule_errors import RuleErrorGateway, RuleErrorRow
from sql.rule_files import RuleFileGateway
from sql.rules import RuleGateway
from sql.sessions import SessionGateway, SessionRow
from sql.signals import SignalGateway, SignalListener
from sql.source_tables import read_source_table
from sql.streams import StreamGateway
from sql.tasks import (
    ChangedContextRow,
    NewTask,
    Progress,
    Read,
    RemainingWorkRow,
    TaskFilter,
    TaskGateway,
    TaskRow,
    TaskSummaryRow,
)
from sql.tokens import TokenGateway, TokenRow
from sql.units import LedgerRow, RecordCounts, StreamCounts, UnitGateway
from sql.values import replace_nul
from sql.views import ViewGateway

__all__ = [
    "AnswerRow",
    "AppendedRevisions",
    "ChangedContextRow",
    "Connection",
    "ConnectionPool",
    "DataError",
    "DatabaseError",
    "DeadlockDetected",
    "HistoryChangeRow",
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
    # Views for dashboards
    "DashboardGateway",
    "EventJudgementRow",
    "OccurrenceRow",
    "OverviewGateway",
    "RuleFiguresRow",
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
    "AlertFilter",
    "AlertGateway",
    "AlertLifetimeRow",
    "AlertNoteGateway",
    "AlertNoteRow",
    "AlertRow",
    "OpenAlertRow",
    "RaisedAlertRow",
    # Events
    "EventEndRow",
    "EventFilter",
    "EventGateway",
    "NewAlert",
    "NewEventRow",
    "StoredEventRow",
    # Lookup by ID
    "LearnedModelGateway",
    "LearnedModelRow",
    "LookupGateway",
    # Processes
    "ProcessGateway",
    "ProcessRow",
    # The demo
    "DemoGateway",
    # Tokens and sessions
    "SessionGateway",
    "SessionRow",
    "TokenGateway",
    "TokenRow",
    # Changes by operators
    "AuditGateway",
    "AuditRow",
    # Changes for live clients
    "ChangeGateway",
    "ChangePosition",
    "ChangeRow",
    "ChangedAlertRow",
    "ChangedRecallRow",
    "ChangedStageRow",
    "RevisionRow",
    # Contexts and corpora
    "ContextGateway",
    "ContextRow",
    "CorpusGateway",
    "NewContextRow",
    "RecallEventRow",
    "RecallOfVersion",
    "UnrequestedEventRow",
    "UnsettledContextRow",
    # Feedback
    "CalibrationGateway",
    "FeedbackStateRow",
    "JudgementGateway",
    "UnresolvedEventRow",
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
    "RuleErrorRow",
    "RuleFileGateway",
    "RuleGateway",
    # The recall ledger
    "AnswerJson",
    "ChangeJson",
    "CommandGateway",
    "ExportedRecallRow",
    "NewRevisionRow",
    "LastAnswerRow",
    "NewStageRow",
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
    "ValidRow",
    "SignalGateway",
    "SignalListener",
    "TaskFilter",
    "TaskGateway",
    "TaskRow",
    "TaskSummaryRow",
]
