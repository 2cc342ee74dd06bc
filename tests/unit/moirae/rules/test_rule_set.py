"""Rules of a rule set: positions of their keys, versions, and the stored form."""

import pytest

from moirae.rules.parse import parse_rules
from moirae.rules.rule_set import Rule, has_same_alerts
from tests.unit.moirae.rules.rule_files import EVERY_KEY, RULE, read_rule, with_keys


def test_keys_and_texts_have_positions() -> None:
    rule = read_rule(EVERY_KEY)
    assert rule.position("expr", line=1, column=8) == (9, 18)
    assert rule.position("where") == (24, 12)
    assert rule.position("context", "running", "sql", line=1, column=8) == (16, 30)
    assert rule.position("recall", "norm", "sql") == (22, 20)
    assert rule.position("then", 0, "sql", line=1, column=2) == (27, 14)
    assert rule.position("delay") == (8, 5)
    assert rule.derived[0].origin is not None
    assert rule.derived[0].origin.position("expr", line=1, column=8) == (5, 18)
    problem = rule.make_problem("no such column", "recall", "norm", "sql", line=1, column=8)
    assert str(problem) == "r.yaml:22:27: testbed/NodeOverloaded: no such column"
    assert str(rule.derived[0].make_problem("no", "expr")) == "r.yaml:5:11: testbed/load: no"


def test_position_in_a_block_scalar() -> None:
    rule = read_rule(
        RULE.replace(
            "SELECT host, ts FROM cpu", "|\n      SELECT host,\n        tss AS ts\n      FROM cpu"
        )
    )
    assert rule.position("expr", line=2, column=3) == (7, 9)


def test_stored_rule_is_restored_equal() -> None:
    rule = read_rule(EVERY_KEY)
    restored = Rule.from_json(rule.to_json())
    assert restored == rule
    assert restored.version == rule.version
    assert restored.position("expr") is None
    assert str(restored.make_problem("no", "expr")) == "testbed/NodeOverloaded: no"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("cpu > 90", "cpu > 91"),
        ("5 minutes", "6 minutes"),
        ("    key: [host] ", "    key: [] "),
        ("for: 0s", "for: 1s"),
        ("keep_firing_for: 10m", "keep_firing_for: 11m"),
        ("for: 0s", "for: 0s\n    delay: 1s"),
        ("for: 0s", "for: 0s\n    id: [host, ts]"),
        ("within: 10m", "within: 11m"),
        ("numeric: [cpu]", "numeric: {cpu: 2}"),
    ],
)
def test_edit_of_events_or_contexts_changes_the_version(old: str, new: str) -> None:
    assert old in EVERY_KEY
    assert read_rule(EVERY_KEY.replace(old, new)).version != read_rule(EVERY_KEY).version


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("severity: page", "severity: ticket"),
        ("{{ event.host }} at", "{{ event.host }}:"),
        ("range: 7d", "range: 14d"),
        ("within: 1h", "within: 2h"),
        ("archive: true", "archive: false"),
        ("keep_firing_for: 10m", "keep_firing_for: 600s"),
        ("k: 10", "k: 5"),
        ("3 * norm.sd", "4 * norm.sd"),
        ("analysis: present", "analysis: event"),
        ("NodeOverloaded", "Renamed"),
    ],
)
def test_other_edit_keeps_the_version(old: str, new: str) -> None:
    assert old in EVERY_KEY
    assert read_rule(EVERY_KEY.replace(old, new)).version == read_rule(EVERY_KEY).version


# Versions as v0.1.0 computed them. Another version cuts a rule off from its events and indexes,
# so a key that is not written, such as one added by a later release, must not enter the version.
MINIMAL_RULE = "8ff7dd0f6925e6ae"
CONTEXT_RULE = "5a9fa647528a5207"


@pytest.mark.parametrize(
    ("keys", "version"),
    [
        ([], MINIMAL_RULE),
        (["id: [host, ts]"], "092b2462bf2de0cd"),
        (["for: 5m"], "d2275df53f9de9c7"),
        (["keep_firing_for: 10m"], "8786521505fe9885"),
        (["delay: 30s"], "72315651c1860a36"),
        (
            ["id: [host, ts]", "for: 5m", "keep_firing_for: 10m", "delay: 30s"],
            "99a7e554b160d89d",
        ),
        (["context: {near: {sql: SELECT cpu FROM cpu}}"], CONTEXT_RULE),
        (["context: {near: {sql: SELECT cpu FROM cpu, within: 1m}}"], "1b451f863b242e58"),
        (
            ["context: {near: {sql: SELECT cpu FROM cpu, within: 1m, delay: 5s}}"],
            "7943128711fbfc1d",
        ),
        (
            ["context: {near: {sql: SELECT cpu FROM cpu, numeric: {cpu: 2.5}}}"],
            "8d47a0650d26b429",
        ),
        (
            [
                "recall:",
                "  mean: {sql: SELECT avg(h.n) AS n FROM cpu h, range: 7d}",
                "  past: {similar: {k: 3}}",
            ],
            MINIMAL_RULE,
        ),
    ],
)
def test_version_is_that_of_release_0_1_0(keys: list[str], version: str) -> None:
    assert read_rule(with_keys(*keys)).version == version


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (RULE.replace("    key: [host]\n", ""), "ee16fc98932c71a5"),
        (
            RULE.replace("expr: SELECT host, ts FROM cpu", "absent: 10m\n    stream: cpu"),
            "06d10b120a7e45fb",
        ),
        (
            RULE.replace("- name: g\n", "- name: g\n  derived: [{stream: load, expr: SELECT 1}]\n"),
            "4d19079a3456c990",
        ),
    ],
    ids=["without key", "absence", "derived stream"],
)
def test_version_of_another_kind_of_rule_is_that_of_release_0_1_0(text: str, version: str) -> None:
    assert read_rule(text).version == version


@pytest.mark.parametrize(
    ("default", "version"),
    [
        ("id: ~", MINIMAL_RULE),
        ("for: 0s", MINIMAL_RULE),
        ("keep_firing_for: 5m", MINIMAL_RULE),
        ("delay: 0s", MINIMAL_RULE),
        ("context: {}", MINIMAL_RULE),
        ("context: {near: {sql: SELECT cpu FROM cpu, within: ~}}", CONTEXT_RULE),
        ("context: {near: {sql: SELECT cpu FROM cpu, numeric: {}}}", CONTEXT_RULE),
        # The delay of a context defaults to that of the rule, which is another value than 0s.
        ("context: {near: {sql: SELECT cpu FROM cpu, delay: 0s}}", "3aa6507d1a76ff5c"),
        ("context: {near: {sql: SELECT cpu FROM cpu, within: 1m, delay: 0s}}", "8d2ba31382ebf9d1"),
    ],
)
def test_explicit_default_changes_the_version_only_as_in_release_0_1_0(
    default: str, version: str
) -> None:
    assert read_rule(with_keys(default)).version == version


def test_texts_change_no_alerts_and_conditions_do() -> None:
    text = """
groups:
- name: g
  rules:
  - alert: A
    expr: SELECT host, ts FROM cpu
    where: n.n > 1
    recall: {n: {sql: "SELECT count(*) AS n FROM cpu h"}}
    annotations: {summary: x}
"""
    rules = [
        parse_rules("r.yaml", changed)[0].rules[0]
        for changed in (text, text.replace("summary: x", "summary: y"), text.replace("> 1", "> 2"))
    ]
    assert has_same_alerts(rules[0], rules[1])
    assert rules[0].version == rules[2].version
    assert not has_same_alerts(rules[0], rules[2])
