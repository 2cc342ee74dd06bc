"""Rule files -> a RuleSet, or every problem in all of them at once. SQL is judged elsewhere (`check`)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from moirae.documents import Read, parse_document, read_document
from moirae.errors import Problem
from moirae.rules.model import RuleFile
from moirae.rules.names import clashes, describe
from moirae.rules.ruleset import Derived, Origin, Rule, RuleSet, derived_of, rules_of
from moirae.validation import sorted_problems, validate

EMPTY = "the file holds no rule"

Parsed = tuple[RuleSet, tuple[Problem, ...]]


def read_rule_files(paths: Iterable[Path], taken: frozenset[str] = frozenset()) -> Parsed:
    """Read rule files; `taken` are the names of streams and relations.

    With an error among the problems the set holds only what was understood, and must not be deployed.
    """
    return _rules((read_document(path, empty=EMPTY, describe=describe) for path in paths), taken)


def parse_rules(file: str, text: str, taken: frozenset[str] = frozenset()) -> Parsed:
    """Read one text of rules, as posted to the server or stored; `file` names it in problems."""
    return _rules([parse_document(file, text, empty=EMPTY, describe=describe)], taken)


def _rules(readings: Iterable[Read], taken: frozenset[str]) -> Parsed:
    rules: list[Rule] = []
    derived: list[Derived] = []
    problems: list[Problem] = []
    documents = []
    for document, faults in readings:
        problems += faults
        if document is None:
            continue
        documents.append(document)
        content, found = validate(RuleFile, document, describe=describe)
        problems += found
        for place, group in enumerate(content.groups if content else ()):
            origin = Origin(document, ("groups", place))
            rules += rules_of(group, origin)
            derived += derived_of(group, origin)
    problems += clashes(documents, taken)
    return RuleSet(tuple(rules), tuple(derived)), sorted_problems(problems)
