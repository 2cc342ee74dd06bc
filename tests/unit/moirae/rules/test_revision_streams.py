"""Streams of recalls and stages as tables of other rules: readers, order, cycles."""

from dataclasses import replace
from datetime import timedelta

import pytest

from moirae.rules.parse import parse_rules
from moirae.rules.questions import ContextSpec
from moirae.rules.revision_streams import (
    Output,
    derived_without,
    find_cycles,
    find_derived_readers,
    find_streams_read,
    list_outputs,
    make_streams,
    order_by_reads,
)
from moirae.rules.rule_set import RuleSet
from tests.unit.moirae.rules.test_event_names import rules as event_rules

TEXT = """\
groups:
- name: g
  derived:
  - {stream: busy, expr: "SELECT ts, host, mean FROM means WHERE mean > 1"}
  - {stream: busier, expr: "SELECT ts, host FROM busy"}
  rules:
  - alert: Last
    expr: SELECT ts, host FROM busier
    recall: {again: {sql: SELECT 1 AS one FROM cpu, stream: later}}
  - alert: Second
    expr: SELECT ts, host FROM SECOND_INPUT
  - alert: First
    expr: SELECT ts, host FROM FIRST_INPUT
    recall: {norm: {sql: SELECT avg(v) AS mean FROM cpu, stream: means}}
    then: [{stream: light, sql: SELECT mean FROM norm}]
"""


def read(first: str = "cpu", second: str = "cpu") -> RuleSet:
    text = TEXT.replace("FIRST_INPUT", first).replace("SECOND_INPUT", second)
    rules, problems = parse_rules("r.yaml", text, frozenset({"cpu"}))
    assert not problems, problems
    return rules


def test_recalls_and_stages_have_two_tables_each() -> None:
    outputs = list_outputs(read().rules)
    assert sorted(outputs) == [
        "later",
        "later_revisions",
        "light",
        "light_revisions",
        "means",
        "means_revisions",
    ]
    assert outputs["means_revisions"] == Output("g/First", "norm", False)
    assert outputs["light"] == Output("g/First", "light", False)


def test_columns_of_the_event_come_first_and_take_precedence() -> None:
    row = {"host": "string", "ts": "string", "tags": "array<string>", "mean": "double"}
    output = Output("g/First", "norm", False)
    present, revisions = make_streams(["means", "means_revisions"], output, row)
    assert list(present.columns.items()) == [
        ("eid", "string"),
        ("ts", "timestamp"),
        ("host", "string"),
        ("mean", "double"),
    ]
    assert not present.has_all_revisions
    assert revisions.has_all_revisions
    assert list(revisions.columns)[2:5] == ["seq", "op", "row_key"]


def test_rule_reads_streams_through_derived_streams() -> None:
    rules = read(second="light_revisions")
    last, second, first = rules.rules
    outputs = list_outputs(rules.rules)
    assert find_streams_read(last, outputs.keys()) == {"means"}
    assert find_streams_read(second, outputs.keys()) == {"light_revisions"}
    assert find_streams_read(first, outputs.keys()) == frozenset()
    readers = find_derived_readers(rules.derived, outputs.keys())
    assert {query.stream for query in readers} == {"busy", "busier"}
    derived = {query.stream: query.expr for query in rules.derived}
    assert derived_without(derived, {"means"}) == {}
    assert derived_without(derived, {"light"}) == derived


def test_rules_come_after_those_whose_streams_they_read() -> None:
    rules = read(second="later").rules
    assert [rule.spec.alert for rule in order_by_reads(rules)] == ["First", "Last", "Second"]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("cpu", "cpu", []),
        ("cpu", "later", []),
        (
            "means",
            "cpu",
            ["r.yaml:13:11: g/First: cycle: g/First → means → g/First; "],
        ),
        (
            "later_revisions",
            "cpu",
            [
                "r.yaml:8:11: g/Last: cycle: g/Last → means → g/First → later_revisions → g/Last; ",
                "r.yaml:13:11: g/First: cycle: g/First → later_revisions → g/Last → means → "
                "g/First; ",
            ],
        ),
    ],
)
def test_cycle_is_reported_with_its_file_and_line(
    first: str, second: str, expected: list[str]
) -> None:
    reason = "a rule must not read what follows from its own events"
    problems = [str(problem) for problem in find_cycles(read(first, second).rules)]
    assert problems == [text + reason for text in expected]


def test_long_chains_of_events_are_ordered() -> None:
    count = 1_500
    exprs = {f"R{number}": f"SELECT ts FROM events.R{number + 1}" for number in range(count)}
    chain = event_rules("g", **exprs, **{f"R{count}": "SELECT ts FROM cpu"})
    names = [rule.spec.alert for rule in order_by_reads(chain)]
    assert names == [f"R{number}" for number in range(count, -1, -1)]


def test_contexts_may_read_events_of_each_other() -> None:
    first, second = event_rules("g", A="SELECT ts FROM cpu", B="SELECT ts FROM events.A")
    assert [rule.spec.alert for rule in order_by_reads([second, first])] == ["A", "B"]
    contexts = {"c": ContextSpec(sql="SELECT ts FROM events.B", within=timedelta(minutes=1))}
    spec = first.spec.model_copy(update={"context": contexts})
    ordered = order_by_reads([replace(first, spec=spec), second])
    assert [rule.spec.alert for rule in ordered] == ["B", "A"]
    assert not list(find_cycles([replace(first, spec=spec), second]))
