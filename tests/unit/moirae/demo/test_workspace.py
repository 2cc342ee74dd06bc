"""The rules of the demo are evaluated in milliseconds: none of them needs Spark."""

from pathlib import Path

import moirae.demo
from moirae.config.settings import load_settings
from moirae.evaluation.batches import RuleBatcher
from moirae.evaluation.plan import ActiveRule
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
    batcher = RuleBatcher(streams, relations)
    rule_set, _ = read_rule_files(sorted((WORKSPACE / "rules").glob("*.yaml")))
    reasons: dict[str, str | None] = {}
    for rule in rule_set.rules:
        name = rule.spec.alert
        if name in TYPES:
            definition = Definition(rule, TYPES[name], (), ())
            active_rule = ActiveRule.of_workspace(definition, settings)
            reasons[name] = batcher.explain_not_plain(active_rule)
    assert reasons == dict.fromkeys(TYPES)
