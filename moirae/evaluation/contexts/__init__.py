"""Contexts and surroundings of events: their queries, and what runs them over rows near events."""

from moirae.evaluation.contexts.evaluator import ContextEvaluator, RecallAnswers
from moirae.evaluation.contexts.event_contexts import EventContexts
from moirae.evaluation.contexts.queries import ContextQueries

__all__ = ["ContextEvaluator", "ContextQueries", "EventContexts", "RecallAnswers"]
