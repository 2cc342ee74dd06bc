"""Rules are parsed and compiled once, before their first rows come."""

from dataclasses import replace
from datetime import timedelta

from moirae.evaluation.prepared_rules import PreparedRules
from moirae.rules import Definition, make_external_definition
from tests.unit.moirae.evaluation.builders import COLUMNS, make_filter

TIMES = {"s": "ts"}
NO_RELATIONS: frozenset[str] = frozenset()


def _prepare(prepared: PreparedRules, *definitions: Definition) -> list[int]:
    return [id(prepared.prepare(rule, TIMES, NO_RELATIONS)) for rule in definitions]


def test_an_equal_definition_is_prepared_once() -> None:
    prepared = PreparedRules({"s": COLUMNS}, {})
    definition = make_filter("A", 1.0).definition
    first = _prepare(prepared, definition)
    stored = Definition.from_json(definition.to_json())
    assert stored is not definition
    assert _prepare(prepared, stored) == first


def test_a_rule_is_prepared_again_when_anything_of_it_changes() -> None:
    prepared = PreparedRules({"s": COLUMNS}, {})
    definition = make_filter("A", 1.0).definition
    rule = prepared.prepare(definition, TIMES, NO_RELATIONS)
    spec = definition.spec.model_copy(update={"keep_firing_for": timedelta(minutes=1)})
    changed = replace(definition, rule=replace(definition.rule, spec=spec))
    assert prepared.prepare(changed, TIMES, NO_RELATIONS).definition is changed
    with_relation = prepared.prepare(changed, TIMES, frozenset({"hosts"}))
    assert with_relation is not rule and with_relation.tables.relations == {"hosts"}


def test_only_active_rules_and_those_of_posted_alerts_stay() -> None:
    prepared = PreparedRules({"s": COLUMNS, "external_alerts": {"ts": "timestamp"}}, {})
    times = {**TIMES, "external_alerts": "ts"}
    definitions = [make_filter("A", 1.0).definition, make_filter("B", 2.0).definition]
    definitions.append(make_external_definition("High"))
    rules = [prepared.prepare(rule, times, NO_RELATIONS) for rule in definitions]
    prepared.remove_inactive(rules[:1])
    again = [prepared.prepare(rule, times, NO_RELATIONS) for rule in definitions]
    assert [a is b for a, b in zip(rules, again, strict=True)] == [True, False, True]
