"""Alerts: identity of events, lifecycle, annotations, and their rows in PostgreSQL."""

from moirae.alerts.alerting_rule import AlertingRule, make_alerting_rule
from moirae.alerts.event import Event, EventRow, canonical_json, deduplicate
from moirae.alerts.lifecycle import AlertLifetime, AlertTiming, Occurrence, fold_events
from moirae.alerts.store import AlertStore, event_columns, first_event_columns

__all__ = [
    "AlertLifetime",
    "AlertStore",
    "AlertTiming",
    "AlertingRule",
    "Event",
    "EventRow",
    "Occurrence",
    "canonical_json",
    "deduplicate",
    "event_columns",
    "first_event_columns",
    "fold_events",
    "make_alerting_rule",
]
