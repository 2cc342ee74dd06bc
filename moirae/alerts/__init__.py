"""Alerts: identity of events, lifecycle, annotations, and their rows in PostgreSQL."""

from moirae.alerts.alerting_rule import AlertingRule, make_alerting_rule
from moirae.alerts.event import Event, EventRow, canonical_json, deduplicate
from moirae.alerts.lifecycle import AlertLifetime, AlertTiming, Occurrence, fold_events
from moirae.alerts.lookup import find_event, find_event_or_recall
from moirae.alerts.notes import NoteKind, add_note, list_notes
from moirae.alerts.store import AlertStore, event_columns, first_event_columns

__all__ = [
    "AlertLifetime",
    "AlertStore",
    "AlertTiming",
    "AlertingRule",
    "Event",
    "EventRow",
    "NoteKind",
    "Occurrence",
    "add_note",
    "canonical_json",
    "deduplicate",
    "event_columns",
    "find_event",
    "find_event_or_recall",
    "first_event_columns",
    "fold_events",
    "list_notes",
    "make_alerting_rule",
]
