"""What the API, the dashboard and the demo read of several nouns."""

from sql.reports.changes import (
    ChangedAlertRow,
    ChangedRecallRow,
    ChangedStageRow,
    ChangeGateway,
    ChangePosition,
    ChangeRow,
    EventEndRow,
    RevisionRow,
)
from sql.reports.dashboard import DashboardGateway
from sql.reports.demo import DemoGateway
from sql.reports.flows import FlowGateway, FlowKind, FlowRow, OpenRecallRow
from sql.reports.lookup import LookupGateway
from sql.reports.norms import LastKeyAnswerRow, NormGateway
from sql.reports.overview import (
    EventJudgementRow,
    OccurrenceRow,
    OverviewGateway,
    RuleWeekRow,
)

__all__ = [
    "ChangeGateway",
    "ChangePosition",
    "ChangeRow",
    "ChangedAlertRow",
    "ChangedRecallRow",
    "ChangedStageRow",
    "DashboardGateway",
    "DemoGateway",
    "EventEndRow",
    "EventJudgementRow",
    "FlowGateway",
    "FlowKind",
    "FlowRow",
    "LastKeyAnswerRow",
    "LookupGateway",
    "NormGateway",
    "OccurrenceRow",
    "OpenRecallRow",
    "OverviewGateway",
    "RevisionRow",
    "RuleWeekRow",
]
