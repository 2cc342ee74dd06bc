"""Events, their contexts, alerts and notes."""

from sql.alerts.alert_notes import AlertNoteGateway, AlertNoteRow
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
from sql.alerts.contexts import (
    ContextGateway,
    ContextRow,
    NewContextRow,
    RecallEventRow,
    RecallOfVersion,
    UnrequestedEventRow,
    UnsettledContextRow,
)
from sql.alerts.events import (
    EventFilter,
    EventGateway,
    NewEventRow,
    SettledEventIdRow,
    StoredEventRow,
)
from sql.alerts.outbox import OutboxContextRow, OutboxEventRow, OutboxGateway

__all__ = [
    "AlertDescriptionRow",
    "AlertFilter",
    "AlertGateway",
    "AlertLifetimeRow",
    "AlertNoteGateway",
    "AlertNoteRow",
    "AlertRow",
    "ContextGateway",
    "ContextRow",
    "EventFilter",
    "EventGateway",
    "NewAlert",
    "NewContextRow",
    "NewEventRow",
    "OpenAlertRow",
    "OutboxContextRow",
    "OutboxEventRow",
    "OutboxGateway",
    "RaisedAlertRow",
    "RecallEventRow",
    "RecallOfVersion",
    "SettledEventIdRow",
    "StoredEventRow",
    "UnrequestedEventRow",
    "UnsettledContextRow",
    "to_json_row",
]
