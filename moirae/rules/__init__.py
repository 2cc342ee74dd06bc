"""Rule files: models and parsing, and the queries of rules about events.

Two doors of their own: `moirae.rules.checks` checks rules before they run, `moirae.rules.requests`
converts their queries into context queries and recall questions.
"""

from moirae.rules.absence import add_expected_keys
from moirae.rules.alert_table import (
    ALERT_COLUMNS,
    ALERT_VERSION_COLUMNS,
    ALERTS,
    ALERTS_TIME,
    add_past_alerts,
)
from moirae.rules.bound_alerts import find_alert_readers
from moirae.rules.definition import (
    Definition,
    build_event_sql,
    build_event_tables,
    build_rule_tables,
    build_watched_rows_sql,
    infer_event_shape,
    make_external_definition,
)
from moirae.rules.event_names import list_event_names, list_event_queries
from moirae.rules.event_streams import build_event_streams, find_event_streams, find_refusal
from moirae.rules.external import (
    EXTERNAL_PREFIX,
    LABELS_ATTRIBUTE,
    OTHER_ALERTS,
    encode_alert_name,
)
from moirae.rules.hybrid_contexts import find_hybrid_contexts
from moirae.rules.key_sources import KeySource, find_closing_columns, find_key_sources
from moirae.rules.model import AlertSpec, LintName, RuleFile
from moirae.rules.parse import parse_rules, read_rule_files
from moirae.rules.questions import HistoryRecall, NormalRecall, SimilarRecall
from moirae.rules.rule_set import EventStream, RevisionStream, Rule, RuleSet, has_same_alerts
from moirae.rules.rule_text import extract_rule, render_rule
from moirae.rules.tables_read import (
    TableReads,
    find_tables_read,
    list_table_reads,
    may_read,
)
from moirae.rules.templates import render
from moirae.rules.unused_keys import find_unused_keys

__all__ = [
    "ALERTS",
    "ALERT_VERSION_COLUMNS",
    "add_past_alerts",
    "ALERTS_TIME",
    "ALERT_COLUMNS",
    "AlertSpec",
    "Definition",
    "EXTERNAL_PREFIX",
    "EventStream",
    "KeySource",
    "LintName",
    "LABELS_ATTRIBUTE",
    "OTHER_ALERTS",
    "RevisionStream",
    "Rule",
    "RuleFile",
    "RuleSet",
    "SimilarRecall",
    "TableReads",
    "HistoryRecall",
    "NormalRecall",
    "has_same_alerts",
    "infer_event_shape",
    "add_expected_keys",
    "build_event_sql",
    "build_event_streams",
    "build_watched_rows_sql",
    "build_event_tables",
    "encode_alert_name",
    "extract_rule",
    "find_hybrid_contexts",
    "find_alert_readers",
    "find_event_streams",
    "find_closing_columns",
    "find_key_sources",
    "find_refusal",
    "find_tables_read",
    "find_unused_keys",
    "list_event_names",
    "list_event_queries",
    "list_table_reads",
    "make_external_definition",
    "may_read",
    "parse_rules",
    "read_rule_files",
    "render",
    "render_rule",
    "build_rule_tables",
]
