"""Problems of rule files: position, rule and cause."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moirae.rules.parse import parse_rules, read_rule_files
from tests.examples import examples
from tests.unit.moirae.rules.rule_files import RULE, USED_NAMES, parse_problems, with_keys


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # The lines of the adversarial inputs, on the keys of this contract.
        (
            RULE.replace("SELECT host, ts FROM cpu", "!!python/object/apply:os.system ['touch x']"),
            "r.yaml:5:11: g/A.expr: tags (!) are not allowed: "
            "'tag:yaml.org,2002:python/object/apply:os.system'",
        ),
        (
            with_keys("labels: &a {x: y}", "annotations: *a"),
            "r.yaml:7:13: g/A.labels: anchors (&) are not allowed; write values out where they "
            "are used",
        ),
        (with_keys("expr: SELECT 1"), "r.yaml:7:5: g/A: duplicate key 'expr', first on line 5"),
        (with_keys("enabled: NO"), "r.yaml:7:14: g/A.enabled: must be true or false, not 'NO'"),
        (with_keys("on: yes"), "r.yaml:7:5: g/A: unknown key 'on'"),
        (with_keys("country: NO"), "r.yaml:7:5: g/A: unknown key 'country'"),
        (
            with_keys("for: 12:30:45"),
            "r.yaml:7:10: g/A.for: '12:30:45' is not a duration; write a number with a unit, "
            "such as "
            "500ms, 10s, 5m, 1h30m, 7d or 2w",
        ),
        (with_keys("limit: .nan"), "r.yaml:7:12: g/A.limit: must be a finite number, not .nan"),
        ("", "r.yaml:1:1: the file contains no rules"),
        (with_keys("for_: 5m"), "r.yaml:7:5: g/A: unknown key 'for_', did you mean 'for'?"),
        (
            with_keys("anotations: {}"),
            "r.yaml:7:5: g/A: unknown key 'anotations', did you mean 'annotations'?",
        ),
        (
            RULE.replace("alert: A", "alert: ../../../..scratch/owned"),
            "r.yaml:4:12: g/../../../..scratch/owned.alert: '../../../..scratch/owned' is not a "
            "valid name; "
            "a name is a letter, then up to 62 letters, digits, _ or -",
        ),
        # Names.
        (
            RULE.replace("name: g", "name: 1g"),
            "r.yaml:2:9: 1g.name: '1g' is not a valid name; a name is a letter, then up to 62 "
            "letters, digits, _ or -",
        ),
        (
            RULE + RULE[8:].replace("A\n", "B\n"),
            "r.yaml:7:9: duplicate group 'g', first defined at r.yaml:2",
        ),
        (
            RULE + "  - {alert: A, expr: SELECT 1}\n",
            "r.yaml:7:13: duplicate alert 'g/A', first defined at r.yaml:4",
        ),
        (
            RULE + "  derived: [{stream: a, expr: S}, {stream: a, expr: S}]\n",
            "r.yaml:7:44: duplicate derived stream 'a', first defined at r.yaml:7",
        ),
        (
            RULE + "  derived: [{stream: cpu, expr: S}]\n",
            "r.yaml:7:22: the name 'cpu' is already used by a stream or relation",
        ),
        (
            with_keys("context: {ping: {sql: S}}"),
            "r.yaml:7:15: g/A: the name 'ping' is already used by a stream or relation",
        ),
        (
            with_keys("then: [{stream: hosts, sql: S, within: 1m}]"),
            "r.yaml:7:21: g/A: the name 'hosts' is already used by a stream or relation",
        ),
        (
            with_keys("context: {a: {sql: S}}", "surroundings: {a: {sql: S}}"),
            "r.yaml:8:20: g/A.surroundings.a: the name 'a' is already used in this rule",
        ),
        (
            with_keys("recall: {event: {sql: S}}"),
            "r.yaml:7:14: g/A.recall.event: the name 'event' is already used in this rule",
        ),
        (
            with_keys("recall: {a: {sql: S}}", "then: [{stream: a, sql: S, within: 1m}]"),
            "r.yaml:8:21: g/A.then[0].stream: the name 'a' is already used in this rule",
        ),
        (with_keys("id: [ts, eid]"), "r.yaml:7:14: g/A.id[1]: attribute name 'eid' is reserved"),
        (with_keys("id: [a, a]"), "r.yaml:7:13: g/A.id[1]: duplicate attribute 'a'"),
        (with_keys("id: [_late]"), "r.yaml:7:10: g/A.id[0]: attribute name '_late' is reserved"),
        (
            RULE.replace("[host]", "[host, ts]"),
            "r.yaml:6:17: g/A.key[1]: ts is not allowed in key: every event would form an alert of its own",
        ),
        (
            with_keys("labels: {alertname: x}"),
            "r.yaml:7:14: g/A.labels.alertname: label name 'alertname' is reserved",
        ),
        (
            with_keys("labels: {page: yes, x: true}"),
            "r.yaml:7:28: g/A.labels.x: must be text, not true or false; quote it",
        ),
        # What triggers.
        (
            with_keys("absent: 5m", "stream: cpu"),
            "r.yaml:7:13: g/A.absent: set exactly one of expr and absent",
        ),
        (
            RULE.replace("    expr: SELECT host, ts FROM cpu\n", ""),
            "r.yaml:4:5: g/A.absent: set exactly one of expr and absent",
        ),
        (
            RULE.replace("expr: SELECT host, ts FROM cpu", "absent: 5m"),
            "r.yaml:4:5: g/A.stream: set absent and stream together, or neither",
        ),
        (
            RULE.replace("expr: SELECT host, ts FROM cpu", "absent: 5m\n    stream: cpu").replace(
                "[host]", "[]"
            ),
            "r.yaml:7:10: g/A.key: absent requires key: the columns whose values are watched",
        ),
        (
            RULE.replace("SELECT host, ts FROM cpu", ""),
            "r.yaml:4:5: g/A.absent: set exactly one of expr and absent",
        ),
        (
            RULE.replace("SELECT host, ts FROM cpu", "' '"),
            "r.yaml:5:11: g/A.expr: must not be empty",
        ),
        # Questions.
        (
            with_keys("recall: {a: {every: 1s}}"),
            "r.yaml:7:17: g/A.recall.a: set exactly one of sql, similar and normal",
        ),
        (
            with_keys("recall: {a: {similar: {contexts: [b]}}}"),
            "r.yaml:7:39: g/A.recall.a.similar.contexts[0]: unknown context 'b'",
        ),
        (
            with_keys("recall: {a: {similar: {k: 1001}}}"),
            "r.yaml:7:31: g/A.recall.a.similar.k: must be at most 1000, not 1001",
        ),
        (
            with_keys("recall: {a: {sql: S, rnge: 1d}}"),
            "r.yaml:7:26: g/A.recall.a: unknown key 'rnge', did you mean 'range'?",
        ),
        (
            with_keys("recall_on: fire"),
            "r.yaml:7:16: g/A.recall_on: must be 'firing' or 'every', not 'fire'",
        ),
        (
            with_keys("then: [{stream: a}]"),
            "r.yaml:7:12: g/A.then[0]: missing key 'sql'",
        ),
        (
            with_keys("context: {a: {sql: S, numeric: {x: 0}}}"),
            "r.yaml:7:40: g/A.context.a.numeric.x: must be greater than 0, not 0",
        ),
        # Templates.
        (
            with_keys("annotations:", "  s: |", "    fine", "    {{ event. }}"),
            "r.yaml:10:9: g/A.annotations.s: expected name or number",
        ),
        (
            with_keys("annotations: {s: '{{ evnt.x }}'}"),
            "r.yaml:7:23: g/A.annotations.s: unknown variable 'evnt'; available: event, labels, parameters",
        ),
        (
            with_keys("annotations: {s: '{{ event.x.y() }}'}"),
            "r.yaml:7:23: g/A.annotations.s: calls are not allowed in a template",
        ),
        # Shapes.
        ("groups: []\n", "r.yaml:1:9: groups: must not be empty"),
        ("groups:\n- x\n", "r.yaml:2:3: groups[0]: must be a mapping, `key: value`, not 'x'"),
        (
            "group: []\ngroups: [{name: a}]\n",
            "r.yaml:1:1: unknown key 'group', did you mean 'groups'?",
        ),
    ],
)
def test_invalid_rule_is_rejected_at_its_position(text: str, expected: str) -> None:
    assert parse_problems(text) == [expected]


def test_problems_of_all_files_are_reported_together(tmp_path: Path) -> None:
    texts = {
        "a.yaml": RULE.replace("[host]", "[ts]")
        + "    enabled: no\n  derived: [{stream: cpu, expr: S}]\n",
        "b.yaml": "groups: [\n",
        "c.yaml": RULE + "    annotations: {s: '{{'}\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    _, problems = read_rule_files(
        [*(tmp_path / name for name in texts), tmp_path / "d.yaml"], USED_NAMES
    )
    assert [str(problem).removeprefix(f"{tmp_path}/") for problem in problems] == [
        "a.yaml:6:11: g/A.key[0]: ts is not allowed in key: every event would form an alert of its own",
        "a.yaml:7:14: g/A.enabled: must be true or false, not 'no'",
        "a.yaml:8:22: the name 'cpu' is already used by a stream or relation",
        "b.yaml:2:1: groups: not YAML: expected the node content, but found '<stream end>'",
        f"c.yaml:2:9: duplicate group 'g', first defined at {tmp_path}/a.yaml:2",
        f"c.yaml:4:12: duplicate alert 'g/A', first defined at {tmp_path}/a.yaml:4",
        "c.yaml:7:23: g/A.annotations.s: unexpected 'end of template'",
        "d.yaml: cannot be read: No such file or directory",
    ]


def test_long_list_of_problems_is_truncated() -> None:
    problems = parse_problems("groups:\n" + "- {nam: x}\n" * 500)
    assert len(problems) == 101
    assert problems[-1].endswith("and 900 more problems")


KEYS = "name rules derived alert expr absent stream key id for labels annotations context recall similar then".split()
VALUES = st.recursive(
    st.sampled_from(
        [
            "x",
            "5m",
            "1",
            "~",
            "true",
            ".nan",
            "'{{ event.x }}'",
            "'{% for %}'",
            "''",
            "[]",
            "SELECT 1",
        ]
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: f"[{', '.join(parts)}]"),
        st.dictionaries(st.sampled_from([*KEYS, "sql", "k", "x", "event"]), inner, max_size=5).map(
            lambda parts: "{" + ", ".join(f"{k}: {v}" for k, v in parts.items()) + "}"
        ),
    ),
    max_leaves=20,
)


@examples(200)
@given(st.dictionaries(st.sampled_from(KEYS), VALUES))
def test_any_rule_is_parsed_or_rejected(parts: dict[str, str]) -> None:
    text = "groups:\n- name: g\n  rules:\n  - alert: A\n"
    text += "".join(f"    {key}: {value}\n" for key, value in parts.items())
    rule_set, problems = parse_rules("r.yaml", text, USED_NAMES)
    assert rule_set.rules or problems
    for problem in problems:
        assert problem.line is not None
        assert 1 <= problem.line <= len(parts) + 4
        assert len(problem.message) < 500
