"""Inspection of a workspace: status, consistency checks, rule execution.

A module is loaded when one of its names is used: `moirae ingest`, which only adds up counters, and
`moirae status` do not wait for the libraries that the explanation of rules needs. Inside the
modules, imports are at the top. A module of its own, `moirae.inspect.past_events`, holds the answers
about events.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moirae.inspect.accounting import DEAD_LETTER_COUNTERS, sum_accounting
    from moirae.inspect.archive_checks import TableCheck, check_tables
    from moirae.inspect.archived_rows import check_archived_rows
    from moirae.inspect.backups import summarize_backups
    from moirae.inspect.changed_declarations import find_changed_declarations
    from moirae.inspect.cluster import check_cluster
    from moirae.inspect.column_rewrites import describe_rewrites
    from moirae.inspect.delta_checks import run_delta_checks
    from moirae.inspect.doctor import run_checks
    from moirae.inspect.explain import explain_rule
    from moirae.inspect.explained_rules import select_explained_rules
    from moirae.inspect.finding import Finding
    from moirae.inspect.health import (
        assess_health,
        assess_live_condition,
        describe_liveness,
        is_live_available,
        list_problems,
    )
    from moirae.inspect.incomplete_rules import list_incomplete_rules
    from moirae.inspect.inference import ProposedStream, propose_stream
    from moirae.inspect.lost_verdicts import describe_lost_verdicts
    from moirae.inspect.norm_bands import NormBand, load_norm_bands
    from moirae.inspect.norms import make_norm_metrics
    from moirae.inspect.recall_costs import HistoryCosts
    from moirae.inspect.repeat import repeat_last_answers
    from moirae.inspect.report import (
        LostRecordsStatus,
        ProcessStatus,
        SetAsideStatus,
        StateReport,
        StatusReport,
    )
    from moirae.inspect.restarts import find_crash_loops
    from moirae.inspect.rewritten_files import describe_rewritten_files
    from moirae.inspect.rows_ahead import summarize_rows_ahead
    from moirae.inspect.set_aside import describe_subject, list_set_aside
    from moirae.inspect.state import collect_state
    from moirae.inspect.status import collect_status, print_summary
    from moirae.inspect.stored_bytes import describe_stored_bytes
    from moirae.inspect.stream_sample import StreamSample, read_sample
    from moirae.inspect.timeline import MissingSeries, Timeline, load_timeline
    from moirae.inspect.topics import (
        describe_lost_records,
        list_brokers_away,
        list_source_errors,
    )
    from moirae.inspect.unread_input import measure_unread_input

__all__ = [
    "HistoryCosts",
    "DEAD_LETTER_COUNTERS",
    "Finding",
    "LostRecordsStatus",
    "ProcessStatus",
    "ProposedStream",
    "SetAsideStatus",
    "StateReport",
    "StatusReport",
    "StreamSample",
    "TableCheck",
    "MissingSeries",
    "NormBand",
    "Timeline",
    "assess_health",
    "assess_live_condition",
    "check_archived_rows",
    "check_cluster",
    "check_tables",
    "collect_state",
    "collect_status",
    "describe_liveness",
    "describe_lost_records",
    "describe_lost_verdicts",
    "describe_rewrites",
    "describe_rewritten_files",
    "describe_stored_bytes",
    "describe_subject",
    "explain_rule",
    "find_changed_declarations",
    "find_crash_loops",
    "is_live_available",
    "list_brokers_away",
    "list_incomplete_rules",
    "list_problems",
    "list_set_aside",
    "list_source_errors",
    "load_norm_bands",
    "load_timeline",
    "make_norm_metrics",
    "measure_unread_input",
    "print_summary",
    "propose_stream",
    "read_sample",
    "repeat_last_answers",
    "run_checks",
    "run_delta_checks",
    "select_explained_rules",
    "sum_accounting",
    "summarize_backups",
    "summarize_rows_ahead",
]

_MODULES = {
    "accounting": ("DEAD_LETTER_COUNTERS", "sum_accounting"),
    "archive_checks": ("TableCheck", "check_tables"),
    "archived_rows": ("check_archived_rows",),
    "backups": ("summarize_backups",),
    "changed_declarations": ("find_changed_declarations",),
    "cluster": ("check_cluster",),
    "column_rewrites": ("describe_rewrites",),
    "rewritten_files": ("describe_rewritten_files",),
    "delta_checks": ("run_delta_checks",),
    "doctor": ("run_checks",),
    "explain": ("explain_rule",),
    "explained_rules": ("select_explained_rules",),
    "recall_costs": ("HistoryCosts",),
    "finding": ("Finding",),
    "health": (
        "assess_health",
        "assess_live_condition",
        "describe_liveness",
        "is_live_available",
        "list_problems",
    ),
    "incomplete_rules": ("list_incomplete_rules",),
    "lost_verdicts": ("describe_lost_verdicts",),
    "norm_bands": ("NormBand", "load_norm_bands"),
    "norms": ("make_norm_metrics",),
    "repeat": ("repeat_last_answers",),
    "report": (
        "LostRecordsStatus",
        "ProcessStatus",
        "SetAsideStatus",
        "StateReport",
        "StatusReport",
    ),
    "restarts": ("find_crash_loops",),
    "rows_ahead": ("summarize_rows_ahead",),
    "set_aside": ("describe_subject", "list_set_aside"),
    "inference": ("ProposedStream", "propose_stream"),
    "stored_bytes": ("describe_stored_bytes",),
    "stream_sample": ("StreamSample", "read_sample"),
    "timeline": ("MissingSeries", "Timeline", "load_timeline"),
    "topics": ("describe_lost_records", "list_brokers_away", "list_source_errors"),
    "state": ("collect_state",),
    "unread_input": ("measure_unread_input",),
    "status": ("collect_status", "print_summary"),
}


def __getattr__(name: str) -> Any:
    """Load a name of `__all__` from its module (PEP 562)."""
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
