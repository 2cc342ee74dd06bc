"""Contexts as parsed from the answers of their queries."""

from typing import Any

import orjson
import pytest

from moirae.evaluation.context_queries import ContextEvaluator
from moirae.evaluation.limits import CONTEXT_ROWS
from moirae.evaluation.plan import ActiveRule
from moirae.rules.definition import Definition, build_rule_tables, infer_event_shape
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import Rule

QUERY = {"sql": "SELECT c.cpu FROM cpu c WHERE c.host = event.host", "within": "1m"}


@pytest.fixture
def rule() -> ActiveRule:
    """A rule with a context and a surrounding."""
    questions = {"context": {"near": QUERY}, "surroundings": {"around": QUERY}}
    spec = AlertSpec.model_validate({"alert": "A", "expr": "SELECT host, ts FROM cpu", **questions})
    answers = {"near": {"cpu": "double"}, "around": {"cpu": "double"}}
    definition = Definition(Rule("g", spec), {"host": "string"}, ("host",), ("host",), answers)
    tables = build_rule_tables(definition.rule, {"cpu": "ts"}, frozenset())
    return ActiveRule(definition, tables, infer_event_shape(definition.rule, tables))


def _texts(count: int) -> list[str]:
    return [orjson.dumps({"cpu": f"{number:05}"}).decode() for number in reversed(range(count))]


def test_truncated_context_reports_its_row_count(rule: ActiveRule) -> None:
    no_spark: Any = None
    parsed = ContextEvaluator(no_spark, no_spark).parse_contexts(
        rule, {"near": _texts(CONTEXT_ROWS + 7), "around": _texts(CONTEXT_ROWS)}
    )
    assert parsed.cut == {"near": CONTEXT_ROWS + 7}
    assert [row["cpu"] for row in parsed.contexts["near"]] == [
        f"{number:05}" for number in range(CONTEXT_ROWS)
    ]
    assert len(parsed.surroundings["around"]) == CONTEXT_ROWS


def test_context_within_the_limit_is_complete(rule: ActiveRule) -> None:
    no_spark: Any = None
    assert ContextEvaluator(no_spark, no_spark).parse_contexts(rule, {"near": _texts(3)}).cut == {}
