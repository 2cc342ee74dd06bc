"""Stages: row revisions of recalls, and the events whose stages are evaluated over them."""

from sql.stages.recalled_events import (
    HistoryChangeRow,
    NewStageRow,
    RecalledEventGateway,
    RecalledEventRow,
)
from sql.stages.row_revisions import (
    AppendedRevisions,
    ChangeJson,
    RevisionStreamRow,
    RowRevisionGateway,
    RowRevisionRow,
    StageRow,
    ValidRow,
)

__all__ = [
    "AppendedRevisions",
    "ChangeJson",
    "HistoryChangeRow",
    "NewStageRow",
    "RecalledEventGateway",
    "RecalledEventRow",
    "RevisionStreamRow",
    "RowRevisionGateway",
    "RowRevisionRow",
    "StageRow",
    "ValidRow",
]
