"""Alerts and notes on them."""

from sql.alerts.alert_notes import AlertNoteGateway, AlertNoteRow, NewAlertNote
from sql.alerts.alerts import (
    AlertDescriptionRow,
    AlertFilter,
    AlertGateway,
    AlertLifetimeRow,
    AlertRow,
    NewAlert,
    OpenAlertRow,
    RaisedAlertRow,
    to_json_row,
)

__all__ = [
    "AlertDescriptionRow",
    "AlertFilter",
    "AlertGateway",
    "AlertLifetimeRow",
    "AlertNoteGateway",
    "AlertNoteRow",
    "AlertRow",
    "NewAlert",
    "NewAlertNote",
    "OpenAlertRow",
    "RaisedAlertRow",
    "to_json_row",
]
