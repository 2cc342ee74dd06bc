"""Rule files -> a RuleSet, or every problem in all of them at once. SQL is judged elsewhere (`check`)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from moirae.documents import ReadResult, parse_document, read_document, sort_problems, validate
from moirae.errors import Problem
from moirae.rules.model import RuleFile
from moirae.rules.names import describe_path, find_name_clashes
from moirae.rules.rule_set import (
    DerivedQuery,
    Origin,
    Rule,
    RuleSet,
    build_derived_queries,
    build_rules,
)

EMPTY_FILE_MESSAGE = "the file holds no rule"

ParseResult = tuple[RuleSet, tuple[Problem, ...]]


def read_rule_files(
    paths: Iterable[Path], reserved_names: frozenset[str] = frozenset()
) -> ParseResult:
    """Read rule files; `taken` are the names of streams and relations.

    With an error among the problems the set holds only what was understood, and must not be deployed.
    """
    return _build_rule_set(
        (
            read_document(path, empty_message=EMPTY_FILE_MESSAGE, describe=describe_path)
            for path in paths
        ),
        reserved_names,
    )


def parse_rules(file: str, text: str, reserved_names: frozenset[str] = frozenset()) -> ParseResult:
    """Read one text of rules, as posted to the server or stored; `file` names it in problems."""
    return _build_rule_set(
        [parse_document(file, text, empty_message=EMPTY_FILE_MESSAGE, describe=describe_path)],
        reserved_names,
    )


def _build_rule_set(readings: Iterable[ReadResult], taken: frozenset[str]) -> ParseResult:
    rules: list[Rule] = []
    derived: list[DerivedQuery] = []
    problems: list[Problem] = []
    documents = []
    for document, faults in readings:
        problems += faults
        if document is None:
            continue
        documents.append(document)
        content, found = validate(RuleFile, document, describe=describe_path)
        problems += found
        for place, group in enumerate(content.groups if content else ()):
            origin = Origin(document, ("groups", place))
            rules += build_rules(group, origin)
            derived += build_derived_queries(group, origin)
    problems += find_name_clashes(documents, taken)
    return RuleSet(tuple(rules), tuple(derived)), sort_problems(problems)
