"""Rule files: the contract, places, versions, and many files at once."""

# the contract is kept word for word

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moirae.rules.model import RuleFile
from moirae.rules.parse import parse_rules, read_rule_files
from moirae.rules.questions import SimilarRecall, SqlRecall
from moirae.rules.rule_set import Rule, RuleSet

CONTRACT = """\
groups:
- name: testbed
  derived:
  - stream: load
    expr: SELECT host, window.end AS ts, avg(cpu) AS cpu FROM cpu GROUP BY host, window(ts, '5 minutes')
    archive: true
  rules:
  - alert: NodeOverloaded
    expr: SELECT host, ts, cpu FROM load WHERE cpu > 90        # every output row has ts; the other columns are the event's attributes
    key: [host]                                               # fingerprint, with the alert's name
    for: 0s
    keep_firing_for: 10m
    labels: {severity: page}
    annotations: {summary: "{{ event.host }} at {{ event.cpu | round(1) }} %"}
    context:
      running: {sql: "SELECT slice FROM cpu WHERE host = event.host", within: 10m}     # rows valid in [event.ts − within, event.ts + delay]
      site: {sql: "SELECT site FROM hosts WHERE host = event.host"}
      own: {sql: "SELECT event.cpu AS cpu", numeric: [cpu]}
    surroundings:
      before: {sql: "SELECT ts, cpu FROM load WHERE host = event.host", within: 1h}
    recall:
      norm: {sql: "SELECT avg(h.cpu) AS mean, stddev(h.cpu) AS sd, count(*) AS n FROM cpu h WHERE h.host = event.host", range: 7d, every: 1s}
      similar: {similar: {contexts: [running, site], k: 10, measure: tfidf, gap: 6h}, every: 1s, feedback: 10m}
    where: event.cpu > norm.mean + 3 * norm.sd                 # optional: holds the alert to its history, re-judged at each revision
    then:                                                      # optional: goes on with live data
    - stream: candidates
      sql: "SELECT n.host, n.mean, p.rtt FROM norm n JOIN ping p ON p.host = n.host"     # norm carries the key, host
      within: 1m
      analysis: present                                       # or event
"""

RULE = """\
groups:
- name: g
  rules:
  - alert: A
    expr: SELECT host, ts FROM cpu
    key: [host]
"""

TAKEN = frozenset({"cpu", "ping", "hosts"})


def read(text: str) -> RuleSet:
    found, problems = parse_rules("r.yaml", text, TAKEN)
    assert problems == ()
    return found


def rule(text: str) -> Rule:
    return read(text).rules[0]


def complaints(text: str) -> list[str]:
    return [str(problem) for problem in parse_rules("r.yaml", text, TAKEN)[1]]


def with_keys(*lines: str) -> str:
    """RULE with further keys from line 7 on."""
    return RULE + "".join(f"    {line}\n" for line in lines)


def test_the_whole_contract_is_read() -> None:
    found = read(CONTRACT)
    (derived,) = found.derived
    assert (derived.group, derived.stream, derived.archive) == ("testbed", "load", True)
    (one,) = found.rules
    assert (one.id, one.group, one.derived) == ("testbed/NodeOverloaded", "testbed", (derived,))
    assert found.find_rule(one.id) is one
    assert found.find_rule("testbed/Other") is None
    spec = one.spec
    assert spec.expr == "SELECT host, ts, cpu FROM load WHERE cpu > 90"
    assert (spec.key, spec.id, spec.for_) == (("host",), None, timedelta(0))
    assert (spec.keep_firing_for, spec.delay) == (timedelta(minutes=10), timedelta(0))
    assert (spec.labels, spec.enabled, spec.recall_on) == ({"severity": "page"}, True, "firing")
    assert spec.annotations == {"summary": "{{ event.host }} at {{ event.cpu | round(1) }} %"}
    assert list(spec.context) == ["running", "site", "own"]
    assert (spec.context["running"].within, spec.context["site"].within) == (
        timedelta(minutes=10),
        None,
    )
    assert spec.context["own"].numeric == {"cpu": None}
    assert spec.surroundings["before"].within == timedelta(hours=1)
    norm, similar = spec.recall["norm"], spec.recall["similar"]
    assert isinstance(norm, SqlRecall)
    assert (norm.range, norm.every, norm.feedback) == (
        timedelta(days=7),
        timedelta(seconds=1),
        None,
    )
    assert isinstance(similar, SimilarRecall)
    assert (similar.similar.contexts, similar.similar.k) == (("running", "site"), 10)
    assert (similar.similar.measure, similar.similar.gap) == ("tfidf", timedelta(hours=6))
    assert similar.feedback == timedelta(minutes=10)
    assert spec.where == "event.cpu > norm.mean + 3 * norm.sd"
    (then,) = spec.then
    assert (then.stream, then.within, then.analysis) == (
        "candidates",
        timedelta(minutes=1),
        "present",
    )


def test_defaults() -> None:
    spec = rule(RULE.replace("    key: [host]\n", "")).spec
    assert (spec.key, spec.id, spec.limit, spec.where) == (None, None, None, None)
    assert (spec.for_, spec.delay, spec.keep_firing_for) == (
        timedelta(0),
        timedelta(0),
        timedelta(minutes=5),
    )
    assert (spec.labels, spec.context, spec.recall, spec.then) == ({}, {}, {}, ())


def test_groups_pass_their_settings_on() -> None:
    text = RULE.replace(
        "- name: g\n", "- name: g\n  interval: 10s\n  query_offset: 1m\n  limit: 5\n"
    )
    one = rule(text)
    assert (one.interval, one.query_offset, one.limit) == (
        timedelta(seconds=10),
        timedelta(minutes=1),
        5,
    )
    assert rule(text + "    limit: 3\n").limit == 3


def test_absence() -> None:
    spec = rule(RULE.replace("expr: SELECT host, ts FROM cpu", "absent: 10m\n    stream: cpu")).spec
    assert (spec.absent, spec.stream, spec.key, spec.expr) == (
        timedelta(minutes=10),
        "cpu",
        ("host",),
        None,
    )


def test_labels_are_text_as_written() -> None:
    spec = rule(with_keys("labels: {country: NO, version: 1.10, code: 007, on: yes}")).spec
    assert spec.labels == {"country": "NO", "version": "1.10", "code": "007", "on": "yes"}


def test_bandwidths_of_numeric_attributes() -> None:
    spec = rule(with_keys("context: {own: {sql: SELECT 1, numeric: {cpu: 2.5, load: ~}}}")).spec
    assert spec.context["own"].numeric == {"cpu": 2.5, "load": None}


def test_places_of_texts() -> None:
    one = rule(CONTRACT)
    assert one.position("expr", line=1, column=8) == (9, 18)
    assert one.position("where") == (24, 12)
    assert one.position("context", "running", "sql", line=1, column=8) == (16, 30)
    assert one.position("recall", "norm", "sql") == (22, 20)
    assert one.position("then", 0, "sql", line=1, column=2) == (27, 14)
    assert one.position("delay") == (8, 5)
    assert one.derived[0].origin is not None
    assert one.derived[0].origin.position("expr", line=1, column=8) == (5, 18)
    problem = one.make_problem("no such column", "recall", "norm", "sql", line=1, column=8)
    assert str(problem) == "r.yaml:22:27: testbed/NodeOverloaded: no such column"
    assert str(one.derived[0].make_problem("no", "expr")) == "r.yaml:5:11: testbed/load: no"


def test_places_in_blocks() -> None:
    one = rule(
        RULE.replace(
            "SELECT host, ts FROM cpu", "|\n      SELECT host,\n        tss AS ts\n      FROM cpu"
        )
    )
    assert one.position("expr", line=2, column=3) == (7, 9)


def test_stored_rules_come_back_equal() -> None:
    one = rule(CONTRACT)
    back = Rule.from_json(one.to_json())
    assert back == one
    assert back.version == one.version
    assert back.position("expr") is None
    assert str(back.make_problem("no", "expr")) == "testbed/NodeOverloaded: no"


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
def test_what_changes_the_version(old: str, new: str) -> None:
    assert old in CONTRACT
    assert rule(CONTRACT.replace(old, new)).version != rule(CONTRACT).version


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
def test_what_keeps_the_version(old: str, new: str) -> None:
    assert old in CONTRACT
    assert rule(CONTRACT.replace(old, new)).version == rule(CONTRACT).version


def test_the_version_is_stable_over_releases() -> None:
    assert rule(RULE).version == "8ff7dd0f6925e6ae"


def test_all_problems_of_all_files_come_at_once(tmp_path: Path) -> None:
    texts = {
        "a.yaml": RULE.replace("[host]", "[ts]")
        + "    enabled: no\n  derived: [{stream: cpu, expr: S}]\n",
        "b.yaml": "groups: [\n",
        "c.yaml": RULE + "    annotations: {s: '{{'}\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    _, problems = read_rule_files(
        [*(tmp_path / name for name in texts), tmp_path / "d.yaml"], TAKEN
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


def test_floods_of_problems_are_cut() -> None:
    found = complaints("groups:\n" + "- {nam: x}\n" * 500)
    assert len(found) == 101
    assert found[-1].endswith("and 900 more problems")


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


@settings(max_examples=400, deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS), VALUES))
def test_any_rule_is_read_or_refused(parts: dict[str, str]) -> None:
    text = "groups:\n- name: g\n  rules:\n  - alert: A\n"
    text += "".join(f"    {key}: {value}\n" for key, value in parts.items())
    found, problems = parse_rules("r.yaml", text, TAKEN)
    assert found.rules or problems
    for problem in problems:
        assert problem.line is not None
        assert 1 <= problem.line <= len(parts) + 4
        assert len(problem.message) < 500


def test_every_key_has_a_description() -> None:
    for name, definition in RuleFile.model_json_schema()["$defs"].items():
        assert definition["description"], name
        for key, value in definition["properties"].items():
            assert value.get("description"), (name, key)
