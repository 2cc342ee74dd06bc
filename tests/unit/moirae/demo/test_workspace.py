"""The workspace of the demo: event queries without Spark, and the age of past events."""

from datetime import timedelta
from pathlib import Path

import moirae.demo
from moirae.config.settings import load_settings
from moirae.demo.precision import _MIN_AGE
from moirae.evaluation.plan import ActiveRule
from moirae.evaluation.rule_groups import RuleGrouper
from moirae.rules.definition import Definition
from moirae.rules.parse import read_rule_files

WORKSPACE = Path(moirae.demo.__file__).parent / "workspace"
TYPES = {
    "NodeOverloaded": {"host": "string", "cpu": "double", "load": "double", "site": "string"},
    "MemoryExhausted": {"host": "string", "memory": "double"},
    "NodeUnreachable": {"host": "string", "lost": "double", "rtt_ms": "double"},
}


def test_event_queries_of_the_demo_are_plain() -> None:
    settings = load_settings(WORKSPACE / "moirae.yaml", {})
    streams = {name: stream.columns for name, stream in settings.streams.items()}
    relations = {name: relation.columns for name, relation in settings.relations.items()}
    grouper = RuleGrouper(streams, relations)
    rule_set, _ = read_rule_files(sorted((WORKSPACE / "rules").glob("*.yaml")))
    reasons: dict[str, str | None] = {}
    for rule in rule_set.rules:
        name = rule.spec.alert
        if name in TYPES:
            definition = Definition(rule, TYPES[name], (), ())
            active_rule = ActiveRule.of_workspace(definition, settings)
            reasons[name] = grouper.explain_not_plain(active_rule)
    assert reasons == dict.fromkeys(TYPES)


def test_an_alert_of_the_live_phase_is_a_past_one_minutes_later() -> None:
    rule_set, _ = read_rule_files(sorted((WORKSPACE / "rules").glob("*.yaml")))
    gaps = {rule.spec.recall["similar"].similar.gap for rule in rule_set.rules}
    assert gaps == {_MIN_AGE}
    assert timedelta(minutes=4) > _MIN_AGE  # failures recur after more than four minutes
