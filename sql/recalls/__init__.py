"""Tasks of recalls, commands to them, and answers."""

from sql.recalls.commands import CommandGateway
from sql.recalls.replay import ErasedSinceRow, RepeatableRow, ReplayGateway
from sql.recalls.revisions import (
    AnswerJson,
    AnswerRow,
    ExportedRecallRow,
    LastAnswerRow,
    NewRevisionRow,
    RevisionGateway,
)
from sql.recalls.tasks import (
    ChangedContextRow,
    MeasuredRecall,
    NewTask,
    Progress,
    Read,
    RemainingWorkRow,
    TaskFilter,
    TaskGateway,
    TaskRow,
    TaskSummaryRow,
)
from sql.recalls.trimming import TrimmingGateway
from sql.recalls.unsettled_reads import UnsettledReadGateway, UnsettledReadRow

__all__ = [
    "AnswerJson",
    "AnswerRow",
    "ChangedContextRow",
    "CommandGateway",
    "ExportedRecallRow",
    "LastAnswerRow",
    "MeasuredRecall",
    "NewRevisionRow",
    "NewTask",
    "Progress",
    "Read",
    "RemainingWorkRow",
    "ErasedSinceRow",
    "RepeatableRow",
    "ReplayGateway",
    "RevisionGateway",
    "TaskFilter",
    "TaskGateway",
    "TaskRow",
    "TaskSummaryRow",
    "TrimmingGateway",
    "UnsettledReadGateway",
    "UnsettledReadRow",
]
