"""Keys that are accepted without effect are reported with their position."""

from pathlib import Path

import pytest

from moirae.config.settings import load_settings
from moirae.rules.parse import parse_rules
from moirae.rules.unused_keys import find_unused_keys

RULES = """groups:
- name: g
  interval: 10s
  rules:
  - alert: A
    expr: SELECT 1
    then: [{stream: live, sql: SELECT 1, within: 1m}]
  - alert: B
    expr: SELECT 1
    delay: 1m
    context: {a: {sql: SELECT 1, within: 1m, delay: 0s}}
- name: h
  rules:
  - alert: C
    expr: SELECT 1
    then: []
    delay: 1m
    surroundings: {a: {sql: SELECT 1, within: 1m, delay: 0s}, b: {sql: SELECT 1, within: 1m}}
"""
WARNINGS = [
    "r.yaml:3:3: warning: g.interval: not evaluated yet, the key has no effect: rules are "
    "evaluated with every batch",
    "r.yaml:10:5: warning: g/B.delay: the key has no effect: no query of the rule uses it as its delay",
]


def test_rule_key_without_effect_is_a_warning_at_its_position() -> None:
    rules, problems = parse_rules("r.yaml", RULES)
    assert not problems
    assert [str(problem) for problem in find_unused_keys(rules)] == WARNINGS
    assert {problem.severity for problem in find_unused_keys(rules)} == {"warning"}


@pytest.mark.parametrize(
    ("text", "warnings"),
    [
        ("home: .moirae\n", []),
        ("receivers: {}\nroutes: []\n", []),
        (
            "home: .moirae\nreceivers:\n  ops: {webhook: http://127.0.0.1/}\n",
            ["2:1: warning: receivers: no route leads to a receiver: alerts are not sent"],
        ),
        ("receivers:\n  ops: {webhook: http://127.0.0.1/}\nroutes: [{receiver: ops}]\n", []),
    ],
)
def test_workspace_key_without_effect_is_a_warning_at_its_position(
    tmp_path: Path, text: str, warnings: list[str]
) -> None:
    file = tmp_path / "moirae.yaml"
    file.write_text(text)
    assert [str(problem) for problem in load_settings(file, {}).warnings] == [
        f"{file}:{line}" for line in warnings
    ]
