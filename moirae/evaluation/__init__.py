"""Evaluation of rules and contexts over rows, for live rows and for archived rows alike."""

from moirae.evaluation.batches import RuleBatcher
from moirae.evaluation.context_queries import (
    ContextEvaluator,
    EventContexts,
    LiftedContextQuery,
    context_horizon,
    prepare_context_query,
)
from moirae.evaluation.evaluator import RuleEvaluator
from moirae.evaluation.guard import Guard
from moirae.evaluation.limits import CONTEXT_ROWS
from moirae.evaluation.local import LocalEvaluator
from moirae.evaluation.panes import PaneCache
from moirae.evaluation.plan import (
    ActiveRule,
    RuleCohort,
    RuleSlice,
    advance_cohorts,
    bind_event_query,
    build_branches,
    build_cohorts,
    concatenate_rules,
    due_slices,
    horizon,
    view_name,
)
from moirae.evaluation.stream_rows import ArchivedStreamRows, LiveStreamRows

__all__ = [
    "ActiveRule",
    "ArchivedStreamRows",
    "CONTEXT_ROWS",
    "ContextEvaluator",
    "EventContexts",
    "Guard",
    "LiftedContextQuery",
    "LiveStreamRows",
    "LocalEvaluator",
    "PaneCache",
    "RuleBatcher",
    "RuleCohort",
    "RuleEvaluator",
    "RuleSlice",
    "advance_cohorts",
    "bind_event_query",
    "build_branches",
    "build_cohorts",
    "concatenate_rules",
    "context_horizon",
    "due_slices",
    "horizon",
    "prepare_context_query",
    "view_name",
]
