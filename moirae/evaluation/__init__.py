"""Evaluation of rules and their contexts over rows, live and archived."""

from moirae.evaluation.batches import RuleBatcher
from moirae.evaluation.context_queries import (
    ContextEvaluator,
    ContextQueries,
    EventContexts,
    RecallAnswers,
)
from moirae.evaluation.evaluator import (
    MAX_PAST_EVENT_ROWS,
    RuleEvaluator,
    find_archived_event_rows,
)
from moirae.evaluation.executor_rules import ExecutorRules, is_executable
from moirae.evaluation.guard import Guard
from moirae.evaluation.plan import (
    ActiveRule,
    RuleCohort,
    RuleGroup,
    RuleSlice,
    RuleVersion,
    advance_cohorts,
    build_cohorts,
    correctable_slices,
    due_slices,
    input_view,
    open_slices,
    relation_view,
)
from moirae.evaluation.revision_rows import RevisionRows
from moirae.evaluation.stream_rows import ArchivedStreamRows, LiveStreamRows

__all__ = [
    "ActiveRule",
    "ArchivedStreamRows",
    "ContextEvaluator",
    "ContextQueries",
    "EventContexts",
    "ExecutorRules",
    "Guard",
    "LiveStreamRows",
    "MAX_PAST_EVENT_ROWS",
    "RecallAnswers",
    "RevisionRows",
    "RuleBatcher",
    "RuleCohort",
    "RuleGroup",
    "RuleEvaluator",
    "RuleSlice",
    "RuleVersion",
    "advance_cohorts",
    "build_cohorts",
    "correctable_slices",
    "due_slices",
    "find_archived_event_rows",
    "input_view",
    "open_slices",
    "is_executable",
    "relation_view",
]
