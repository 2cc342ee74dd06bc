"""Inspection of a workspace: status, consistency checks, rule execution, past events."""

from moirae.inspect.doctor import run_checks
from moirae.inspect.explain import explain_rule
from moirae.inspect.past_events import RecallAnswer, SimilarEvent, describe_coverage, load_answers
from moirae.inspect.status import (
    DEAD_LETTER_COUNTERS,
    assess_health,
    collect_status,
    is_live_available,
    list_problems,
    print_summary,
    sum_accounting,
)

__all__ = [
    "DEAD_LETTER_COUNTERS",
    "RecallAnswer",
    "SimilarEvent",
    "assess_health",
    "collect_status",
    "describe_coverage",
    "explain_rule",
    "is_live_available",
    "load_answers",
    "print_summary",
    "list_problems",
    "run_checks",
    "sum_accounting",
]
