"""Events of rules, their contexts, and the outbox to the archive."""

from sql.events.contexts import (
    ContextGateway,
    ContextRow,
    NewContextRow,
    RecallEventRow,
    RecallNeeds,
    RecallOfVersion,
    UnrequestedEventRow,
    UnsettledContextRow,
)
from sql.events.events import (
    EventFilter,
    EventGateway,
    NewEventRow,
    SettledEventIdRow,
    StoredEventRow,
)
from sql.events.outbox import OutboxContextRow, OutboxEventRow, OutboxGateway

__all__ = [
    "ContextGateway",
    "ContextRow",
    "EventFilter",
    "EventGateway",
    "NewContextRow",
    "NewEventRow",
    "OutboxContextRow",
    "OutboxEventRow",
    "OutboxGateway",
    "RecallEventRow",
    "RecallNeeds",
    "RecallOfVersion",
    "SettledEventIdRow",
    "StoredEventRow",
    "UnrequestedEventRow",
    "UnsettledContextRow",
]
