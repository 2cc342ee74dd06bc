"""Rules of posted alerts."""

import re
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from moirae.rules import Definition, make_external_definition, parse_rules
from moirae.rules.external import encode_alert_name

_RULE = """
groups:
- name: prometheus
  rules:
  - alert: HighLoad
    external: true
    context:
      load: {sql: "SELECT cpu FROM cpu WHERE host = event.instance", within: 5m}
    annotations: {summary: "{{ event.job }}"}
"""


@given(st.lists(st.text(max_size=80), unique=True, max_size=5))
def test_names_have_different_encodings_that_are_names_of_rules(names: list[str]) -> None:
    encoded = list(map(encode_alert_name, names))
    assert all(re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,62}", name) for name in encoded)
    for (first, one), (second, two) in combinations(zip(names, encoded, strict=True), 2):
        assert one != two, (first, second)


def test_plain_name_is_its_own_encoding() -> None:
    assert encode_alert_name("KubePodCrashLooping") == "KubePodCrashLooping"
    assert encode_alert_name("Disk full") == "Disk-20-full"
    assert encode_alert_name("") == "other"
    assert encode_alert_name("other") != "other"


def test_declared_rule_has_the_context_of_labels_and_its_own() -> None:
    rules, problems = parse_rules("r.yaml", _RULE)
    assert problems == ()
    (rule,) = rules.rules
    assert rule.id == "external/HighLoad"
    assert list(rule.spec.context) == ["labels", "load"]
    assert list(rule.spec.recall) == ["similar"]
    assert rule.to_json()["rules"][0]["recall"]["similar"]["similar"]["measure"] == "binary"
    assert "'$.instance'" in str(rule.spec.expr)
    assert "'$.job'" in str(rule.spec.expr)


def test_annotation_that_names_another_label_keeps_the_version() -> None:
    first, second = (
        parse_rules("r.yaml", text)[0].rules[0] for text in (_RULE, _RULE.replace("job", "zone"))
    )
    assert first.spec.expr != second.spec.expr
    assert first.version == second.version


def test_group_external_is_reserved() -> None:
    text = "groups: [{name: external, rules: [{alert: A, expr: SELECT ts FROM cpu}]}]"
    (problem,) = parse_rules("r.yaml", text)[1]
    assert "reserved" in problem.message


def test_event_query_of_a_posted_alert_is_refused() -> None:
    text = "groups: [{name: a, rules: [{alert: A, external: true, expr: SELECT ts FROM cpu}]}]"
    (problem,) = parse_rules("r.yaml", text)[1]
    assert "alerts that are posted have none" in problem.message


def test_rule_declared_twice_is_refused() -> None:
    text = _RULE + _RULE.replace("groups:\n", "").replace("prometheus", "second")
    assert any("duplicate alert" in problem.message for problem in parse_rules("r.yaml", text)[1])


def test_undeclared_rule_is_restored_from_the_database() -> None:
    definition = make_external_definition("HighLoad")
    assert definition.name == "external/HighLoad"
    assert Definition.from_json(definition.to_json()) == definition
