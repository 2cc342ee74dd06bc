"""Alerts: identity of events, lifecycle, annotations, and their rows in PostgreSQL."""

from moirae.alerts import built_in
from moirae.alerts.alert_stream import AlertStream, TablesOfRecalls, make_alert_table
from moirae.alerts.alerting_rule import AlertingRule, make_alerting_rule
from moirae.alerts.changes import ChangeLog, format_position, parse_position, select_last
from moirae.alerts.checked_steps import InvestigatedAlert, RankedStep, rank_steps
from moirae.alerts.column_folding import UNSET, LifetimeColumns, fold_columns
from moirae.alerts.event import (
    Event,
    EventRow,
    canonical_json,
    deduplicate,
    make_alert_id,
    make_event,
    make_fingerprint,
    make_incident_id,
)
from moirae.alerts.event_columns import EventColumns, EventKey, Positions
from moirae.alerts.external import (
    AlertPost,
    PostedAlert,
    continue_alert,
    make_external_event,
)
from moirae.alerts.fix_records import FixRecords
from moirae.alerts.fixes import CAME_BACK_WITHIN, FixRecord, format_span, summarize_fixes
from moirae.alerts.folding import FoldedAlert, fold_alerts, sort_event
from moirae.alerts.lifecycle import AlertLifetime, AlertTiming, Occurrence, fold_events
from moirae.alerts.lookup import find_event, find_event_or_recall
from moirae.alerts.notes import Effect, NoteKind, Outcome, add_note
from moirae.alerts.silence import AlertEnd, EndingAlert, SilenceReason, decide_end
from moirae.alerts.spans import evaluate_in_order, find_spans
from moirae.alerts.store import AlertStore, describe_alert, make_event_row, make_lifetime_row

__all__ = [
    "AlertEnd",
    "AlertLifetime",
    "AlertPost",
    "AlertStore",
    "AlertStream",
    "AlertTiming",
    "AlertingRule",
    "CAME_BACK_WITHIN",
    "ChangeLog",
    "EndingAlert",
    "Effect",
    "Event",
    "EventColumns",
    "EventKey",
    "EventRow",
    "FixRecord",
    "FoldedAlert",
    "InvestigatedAlert",
    "LifetimeColumns",
    "NoteKind",
    "Occurrence",
    "Outcome",
    "Positions",
    "PostedAlert",
    "RankedStep",
    "SilenceReason",
    "UNSET",
    "FixRecords",
    "add_note",
    "built_in",
    "canonical_json",
    "continue_alert",
    "decide_end",
    "deduplicate",
    "describe_alert",
    "evaluate_in_order",
    "find_event",
    "find_event_or_recall",
    "find_spans",
    "fold_alerts",
    "fold_columns",
    "fold_events",
    "format_position",
    "format_span",
    "make_alert_id",
    "make_alert_table",
    "make_alerting_rule",
    "make_event",
    "make_event_row",
    "make_external_event",
    "make_fingerprint",
    "make_incident_id",
    "make_lifetime_row",
    "parse_position",
    "rank_steps",
    "select_last",
    "sort_event",
    "summarize_fixes",
    "TablesOfRecalls",
]
