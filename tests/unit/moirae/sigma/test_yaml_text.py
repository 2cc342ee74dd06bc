"""Rule files are written and edited as text: comments and other rules stay as they are."""

from moirae.rules import parse_rules
from moirae.sigma.yaml_text import RuleFileText, write_header, write_rule

VALUES = {
    "alert": "one",
    "expr": "SELECT *\nFROM t\nWHERE a = 'x: \"y\" # z'",
    "key": ["host"],
    "labels": {"level": "high", "flag": "true", "number": "1.10"},
    "annotations": {"summary": 'it\'s: a "test" #1', "references": "a\nb", "empty_lines": "a\n\nb"},
}
EDITED = """\
# Ours.
groups:
- name: g
  rules:
  # About the first.
  - alert: one   # a name
    expr: |-
      SELECT 1
      # not a comment
    key: [host]
    # Team red looks after it.
    labels: {level: high, team: red}
    enabled: false  # for now

  # About the second.
  - alert: two
    expr: SELECT 2
    key: [host]
"""


def test_written_rule_is_read_as_it_was() -> None:
    text = write_header("g", "Note.") + write_rule(VALUES) + write_rule({**VALUES, "alert": "two"})
    rules, problems = parse_rules("f.yaml", text)
    assert not problems
    spec = rules.rules[0].spec
    assert (spec.alert, spec.expr, spec.key) == ("one", VALUES["expr"], ("host",))
    assert (spec.labels, spec.annotations) == (VALUES["labels"], VALUES["annotations"])
    file = RuleFileText(text)
    assert file.values("two") == {**VALUES, "alert": "two"}
    assert file.ends_with_rules


def test_edit_keeps_comments_and_other_rules() -> None:
    changes = {
        ("expr",): "SELECT 3\nFROM t",
        ("labels", "level"): "low",
        ("annotations", "summary"): "new",
    }
    text = RuleFileText(EDITED).edit({"one": changes}, [write_rule(VALUES)])
    for comment in ("# Ours.", "# About the first.", "# a name", "# Team red", "# for now"):
        assert comment in text
    before, _, after = text.partition("  # About the second.\n")
    assert after.startswith("  - alert: two\n    expr: SELECT 2\n    key: [host]\n")
    values = RuleFileText(before).values("one")
    assert values["expr"] == "SELECT 3\nFROM t"
    assert values["labels"] == {"level": "low", "team": "red"}
    assert values["annotations"] == {"summary": "new"}
    assert values["enabled"] == "false"


def test_edit_without_changes_is_the_same_text() -> None:
    assert RuleFileText(EDITED).edit({}, []) == EDITED


def test_key_can_be_deleted() -> None:
    text = RuleFileText(EDITED).edit({"one": {("labels", "level"): None, ("enabled",): None}}, [])
    values = RuleFileText(text).values("one")
    assert values["labels"] == {"team": "red"}
    assert "enabled" not in values


def test_rule_on_one_line_is_not_edited() -> None:
    file = RuleFileText("groups: [{name: g, rules: [{alert: one, expr: SELECT 1}]}]\n")
    assert file.values("one") == {"alert": "one", "expr": "SELECT 1"}
    assert not file.can_edit("one")
    assert not file.ends_with_rules
