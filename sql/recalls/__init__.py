"""Tasks of recalls, commands to them, answers and row revisions."""

from sql.recalls.commands import CommandGateway
from sql.recalls.recalled_events import (
    HistoryChangeRow,
    NewStageRow,
    RecalledEventGateway,
    RecalledEventRow,
)
from sql.recalls.replay import RepeatableRow, ReplayGateway
from sql.recalls.revisions import (
    AnswerJson,
    AnswerRow,
    ExportedRecallRow,
    LastAnswerRow,
    NewRevisionRow,
    RevisionGateway,
)
from sql.recalls.row_revisions import (
    AppendedRevisions,
    ChangeJson,
    RevisionStreamRow,
    RowRevisionGateway,
    RowRevisionRow,
    StageRow,
    ValidRow,
)
from sql.recalls.tasks import (
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

__all__ = [
    "AnswerJson",
    "AnswerRow",
    "AppendedRevisions",
    "ChangeJson",
    "ChangedContextRow",
    "CommandGateway",
    "ExportedRecallRow",
    "HistoryChangeRow",
    "LastAnswerRow",
    "NewRevisionRow",
    "NewStageRow",
    "NewTask",
    "Progress",
    "Read",
    "RecalledEventGateway",
    "RecalledEventRow",
    "RemainingWorkRow",
    "RepeatableRow",
    "ReplayGateway",
    "RevisionGateway",
    "RevisionStreamRow",
    "RowRevisionGateway",
    "RowRevisionRow",
    "StageRow",
    "TaskFilter",
    "TaskGateway",
    "TaskRow",
    "TaskSummaryRow",
    "ValidRow",
]
