"""Contexts of events: truncation, and the time from which they can be settled."""

from typing import Any

import orjson
import pytest

from moirae.evaluation.contexts import ContextEvaluator, ContextQueries, EventContexts
from moirae.evaluation.plan import ActiveRule
from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import Rule

QUERY = {"sql": "SELECT c.cpu FROM cpu c WHERE c.host = event.host", "within": "1m"}
SECOND = 1_000_000  # microseconds


@pytest.fixture
def rule() -> ActiveRule:
    """A rule with a context and a surrounding."""
    queries = {
        "context": {"near": QUERY},
        "surroundings": {"around": {**QUERY, "delay": "30s"}},
    }
    spec = AlertSpec.model_validate({"alert": "A", "expr": "SELECT host, ts FROM cpu", **queries})
    columns = {"near": {"cpu": "double"}, "around": {"cpu": "double"}}
    definition = Definition(Rule("g", spec), {"host": "string"}, ("host",), ("host",), columns)
    return ActiveRule.create(definition, {"cpu": "ts"}, frozenset())


def _texts(count: int) -> list[str]:
    return [orjson.dumps({"cpu": f"{number:05}"}).decode() for number in reversed(range(count))]


def test_truncated_context_records_its_number_of_rows(rule: ActiveRule) -> None:
    no_spark: Any = None
    limit = EventContexts.MAX_ROWS
    contexts = ContextEvaluator(no_spark, no_spark).parse_contexts(
        rule, {"near": _texts(limit + 7), "around": _texts(limit)}
    )
    assert contexts.truncated == {"near": limit + 7}
    assert [row["cpu"] for row in contexts.contexts["near"]] == [
        f"{number:05}" for number in range(limit)
    ]
    assert len(contexts.surroundings["around"]) == limit


def test_context_within_the_limit_is_complete(rule: ActiveRule) -> None:
    no_spark: Any = None
    contexts = ContextEvaluator(no_spark, no_spark).parse_contexts(rule, {"near": _texts(3)})
    assert contexts.truncated == {}


def test_contexts_are_settled_once_the_longest_delay_has_passed(rule: ActiveRule) -> None:
    queries = ContextQueries.lift(rule)
    assert queries.settle_delay == 30 * SECOND
    assert queries.horizon({"cpu": 100 * SECOND}) == 70 * SECOND
    assert queries.horizon({"cpu": None}) is None
    assert queries.horizon({}) is None


def test_rule_without_contexts_has_no_horizon(rule: ActiveRule) -> None:
    assert ContextQueries(rule, []).horizon({"cpu": 100 * SECOND}) is None


def test_queries_are_lifted_once_per_definition(rule: ActiveRule) -> None:
    no_spark: Any = None
    evaluator = ContextEvaluator(no_spark, no_spark)
    queries = evaluator.queries_of(rule)
    assert evaluator.queries_of(rule) is queries
    assert [query.pending_view for query in queries] == ["pending_0", "pending_1"]
