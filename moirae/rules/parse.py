"""Read rule files into a rule set. Queries are checked later, by `moirae.rules.checks.check`."""

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

EMPTY_FILE_MESSAGE = "the file contains no rules"

ParseResult = tuple[RuleSet, tuple[Problem, ...]]


def read_rule_files(
    paths: Iterable[Path], reserved_names: frozenset[str] = frozenset()
) -> ParseResult:
    """Read rule files; `reserved_names` are the names of declared streams and relations.

    If a problem is an error, the rule set is incomplete and must not be deployed.
    """
    results = [
        read_document(path, empty_message=EMPTY_FILE_MESSAGE, describe=describe_path)
        for path in paths
    ]
    return _build_rule_set(results, reserved_names)


def parse_rules(file: str, text: str, reserved_names: frozenset[str] = frozenset()) -> ParseResult:
    """Parse the text of one rule file, as `read_rule_files` does; `file` names it in problems."""
    result = parse_document(file, text, empty_message=EMPTY_FILE_MESSAGE, describe=describe_path)
    return _build_rule_set([result], reserved_names)


def _build_rule_set(results: Iterable[ReadResult], reserved_names: frozenset[str]) -> ParseResult:
    rules: list[Rule] = []
    derived: list[DerivedQuery] = []
    problems: list[Problem] = []
    documents = []
    for document, read_problems in results:
        problems += read_problems
        if document is None:
            continue
        documents.append(document)
        content, model_problems = validate(RuleFile, document, describe=describe_path)
        problems += model_problems
        if content is None:
            continue
        for index, group in enumerate(content.groups):
            origin = Origin(document, ("groups", index))
            rules += build_rules(group, origin)
            derived += build_derived_queries(group, origin)
    problems += find_name_clashes(documents, reserved_names)
    return RuleSet(tuple(rules), tuple(derived)), sort_problems(problems)
