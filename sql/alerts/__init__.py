"""Alerts and notes on them."""

from sql.alerts.alert_notes import AlertNoteGateway, AlertNoteRow, NewAlertNote
from sql.alerts.alerts import (
    AlertDescriptionRow,
    AlertFilter,
    AlertGateway,
    AlertLifetimeRow,
    AlertRow,
    AlertStateRow,
    NewAlert,
    OpenAlertRow,
    RaisedAlertRow,
    to_json_row,
)
from sql.alerts.external_alerts import ExternalAlertGateway, ExternalAlertRow, NewestPostRow
from sql.alerts.incidents import (
    GroupedAlertRow,
    IncidentAlertRow,
    IncidentDecisionRow,
    IncidentFilter,
    IncidentGateway,
    IncidentRow,
    NewPlacement,
)
from sql.alerts.tags import TagGateway, TagNameRow, TriedFixRow

__all__ = [
    "AlertDescriptionRow",
    "AlertFilter",
    "AlertGateway",
    "AlertLifetimeRow",
    "AlertNoteGateway",
    "AlertNoteRow",
    "AlertRow",
    "AlertStateRow",
    "ExternalAlertGateway",
    "ExternalAlertRow",
    "GroupedAlertRow",
    "IncidentAlertRow",
    "IncidentDecisionRow",
    "IncidentFilter",
    "IncidentGateway",
    "IncidentRow",
    "NewAlert",
    "NewAlertNote",
    "NewPlacement",
    "NewestPostRow",
    "OpenAlertRow",
    "RaisedAlertRow",
    "TagGateway",
    "TagNameRow",
    "TriedFixRow",
    "to_json_row",
]
