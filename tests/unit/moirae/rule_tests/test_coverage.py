"""What tests of rules cover."""

from moirae.rule_tests.coverage import CoveredItem, list_parts, measure_coverage
from moirae.rules.definition import Definition
from moirae.rules.parse import parse_rules

RULES = """
groups:
- name: g
  rules:
  - alert: High
    expr: SELECT host, ts, v FROM cpu WHERE v > 1
    key: [host]
    recall: {norm: {sql: SELECT avg(h.v) AS mean FROM cpu h, range: 7d}}
    where: norm.mean < 1
    then: [{stream: ratios, sql: SELECT n.mean FROM norm n}]
"""


def test_rules_stages_and_both_outcomes_of_a_condition_are_covered() -> None:
    rules, problems = parse_rules("r.yaml", RULES)
    assert not problems
    definition = Definition(rules.rules[0], {"host": "string"}, ("host",), ("host",))
    parts = list_parts(definition)
    assert list(map(str, parts)) == [
        "g/High",
        "g/High: stage ratios",
        "g/High: where is true",
        "g/High: where is false",
    ]
    assert measure_coverage([definition], set()).percent == 0
    covered = {CoveredItem("g/High", "rule"), CoveredItem.of_condition("g/High", True)}
    coverage = measure_coverage([definition], covered)
    assert coverage.percent == 50
    assert list(map(str, coverage.missing)) == ["g/High: stage ratios", "g/High: where is false"]
    assert measure_coverage([], covered).percent == 100
