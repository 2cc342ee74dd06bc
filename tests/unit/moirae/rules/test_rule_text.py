"""The YAML of one rule: cut out of a file, or written from the stored rule."""

from moirae.rules.parse import parse_rules
from moirae.rules.rule_set import Rule
from moirae.rules.rule_text import extract_rule, render_rule

FILE = """# of all rules
groups:
- name: web
  derived:
  # five minutes
  - stream: load
    expr: |
      SELECT host, window.end AS ts, avg(cpu) AS cpu
      FROM cpu GROUP BY host, window(ts, '5 minutes')
  rules:
  - {alert: Other, expr: "SELECT host, ts FROM cpu WHERE cpu > 1"}
  - alert: Busy
    parameters: {threshold: 90}
    expr: SELECT host, ts, cpu FROM load WHERE cpu > :threshold  # a mean
    for: 10m
    labels: {severity: page}
    annotations: {summary: "{{ event.host }}"}
"""


def read(text: str, name: str = "web/Busy") -> Rule:
    rules, problems = parse_rules("rules.yaml", text)
    assert not problems
    return next(rule for rule in rules.rules if rule.id == name)


def test_rule_is_cut_out_with_its_comments_and_derived_streams() -> None:
    text = extract_rule(FILE, "web/Busy")
    assert text is not None
    assert "# a mean" in text and "# five minutes" in text and ":threshold" in text
    assert "Other" not in text
    assert read(text) == read(FILE)


def test_unknown_rules_and_files_of_another_shape_give_none() -> None:
    for text in (
        FILE.replace("Busy", "Bus"),
        "",
        "[]",
        "groups: 3",
        "a: [",
        "groups: [{rules: 1}]",
    ):
        assert extract_rule(text, "web/Busy") is None


def test_stored_rule_is_written_with_its_constants_and_without_defaults() -> None:
    stored = Rule.from_json(read(FILE).to_json())
    text = render_rule(stored)
    assert "cpu > 90" in text
    assert "parameters" not in text and "keep_firing_for" not in text
    written = read(text)
    assert (written.version, written.spec.annotations) == (
        stored.version,
        stored.spec.annotations,
    )
