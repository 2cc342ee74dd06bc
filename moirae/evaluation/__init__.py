"""Evaluation of rules and their contexts over rows, live and archived.

A module of its own, `moirae.evaluation.plan`, holds active rules, and which of them are due over
which slice of event time.
"""

from moirae.evaluation.batches import RuleBatcher
from moirae.evaluation.contexts import (
    ContextEvaluator,
    ContextQueries,
    EventContexts,
    RecallAnswers,
)
from moirae.evaluation.evaluator import (
    MAX_PAST_EVENT_ROWS,
    EvaluationResult,
    RuleEvaluator,
    find_archived_event_rows,
)
from moirae.evaluation.executor_rules import ExecutorRules, is_executable
from moirae.evaluation.guard import Guard
from moirae.evaluation.indexed_rules import IndexedRules
from moirae.evaluation.revision_rows import RevisionRows
from moirae.evaluation.stream_rows import ArchivedStreamRows, LiveStreamRows

__all__ = [
    "ArchivedStreamRows",
    "ContextEvaluator",
    "ContextQueries",
    "EvaluationResult",
    "EventContexts",
    "ExecutorRules",
    "Guard",
    "IndexedRules",
    "LiveStreamRows",
    "MAX_PAST_EVENT_ROWS",
    "RecallAnswers",
    "RevisionRows",
    "RuleBatcher",
    "RuleEvaluator",
    "find_archived_event_rows",
    "is_executable",
]
