"""Rewritten context queries: when they can be settled, and what they read."""

from typing import Any
from uuid import UUID

import pytest

from archiver.time_range import TimeRange
from moirae.evaluation.contexts import ContextEvaluator, ContextQueries
from moirae.evaluation.plan import ActiveRule
from recall.requests import RecallEvent
from tests.unit.moirae.evaluation.contexts.builders import make_rule

SECOND = 1_000_000  # microseconds


@pytest.fixture
def rule() -> ActiveRule:
    return make_rule()


def test_contexts_are_settled_once_the_longest_delay_has_passed(rule: ActiveRule) -> None:
    queries = ContextQueries.lift(rule)
    assert queries.settle_delay == 30 * SECOND
    assert queries.horizon({"cpu": 100 * SECOND}) == 70 * SECOND
    assert queries.horizon({"cpu": None}) is None
    assert queries.horizon({}) is None


def test_rule_without_contexts_has_no_horizon(rule: ActiveRule) -> None:
    assert ContextQueries(rule, []).horizon({"cpu": 100 * SECOND}) is None


def test_context_spans_the_time_from_before_the_event_to_after_it(rule: ActiveRule) -> None:
    event = RecallEvent(UUID(int=1), 100 * SECOND, {}, {})
    near, around = ContextQueries.lift(rule, ["p", "q"]).queries
    assert near.span(event) == TimeRange(40 * SECOND, 100 * SECOND + 1)
    assert around.span(event) == TimeRange(40 * SECOND, 130 * SECOND + 1)


def test_queries_are_lifted_once_per_definition(rule: ActiveRule) -> None:
    no_spark: Any = None
    evaluator = ContextEvaluator(no_spark, no_spark)
    queries = evaluator.queries_of(rule)
    assert evaluator.queries_of(rule) is queries
    assert [query.pending_view for query in queries] == ["pending_0", "pending_1"]
