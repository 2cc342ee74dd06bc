"""Names in rule files: paths in problems, and names that are defined twice."""

import pytest

from moirae.documents.reader import Document, parse_document
from moirae.documents.types import KeyPath
from moirae.rules.names import describe_path, find_name_clashes

TEXT = """\
groups:
- name: g
  derived: [{stream: load, expr: S}]
  rules:
  - alert: A
    context: {near: {sql: S}}
  - context: {load: {sql: S}}
    then: [{stream: cpu, sql: S}]
"""


def parse(text: str, file: str = "a.yaml") -> Document:
    document, problems = parse_document(file, text, empty_message="empty")
    assert document is not None and not problems
    return document


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("groups", 0), "g"),
        (("groups", 0, "interval"), "g.interval"),
        (("groups", 0, "rules", 0, "context", "near", "sql"), "g/A.context.near.sql"),
        (("groups", 0, "derived", 0, "expr"), "g/load.expr"),
        (("groups", 0, "rules", 1, "context"), "g.rules[1].context"),
        (("groups", 7, "rules", 1, "context"), "groups[7].rules[1].context"),
    ],
)
def test_path_is_described_by_names(path: KeyPath, text: str) -> None:
    assert describe_path(parse(TEXT), path) == text


def test_tables_of_a_rule_do_not_hide_streams() -> None:
    problems = [str(problem) for problem in find_name_clashes([parse(TEXT)], frozenset({"cpu"}))]
    assert problems == [
        "a.yaml:7:15: g.rules[1]: the name 'load' is already used by a stream or relation",
        "a.yaml:8:21: g.rules[1]: the name 'cpu' is already used by a stream or relation",
    ]


def test_name_defined_in_two_files_is_reported_at_the_second() -> None:
    documents = [
        parse("groups: [{name: g, rules: [{alert: A}]}]\n"),
        parse("groups: [{name: g, rules: [{alert: A}, {alert: B}]}]\n", "b.yaml"),
    ]
    assert [str(problem) for problem in find_name_clashes(documents, frozenset())] == [
        "b.yaml:1:17: duplicate group 'g', first defined at a.yaml:1",
        "b.yaml:1:36: duplicate alert 'g/A', first defined at a.yaml:1",
    ]


@pytest.mark.parametrize(
    "text", ["groups: x\n", "groups: [1]\n", "groups: [{name: [], rules: 5}]\n"]
)
def test_values_of_other_types_have_no_names(text: str) -> None:
    assert list(find_name_clashes([parse(text)], frozenset({"cpu"}))) == []
