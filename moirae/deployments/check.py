"""Reads and checks the rule files of a workspace."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from moirae.config import Settings
from moirae.errors import Problem, ProblemsError, UsageError, has_errors
from moirae.rules import (
    Definition,
    Rule,
    RuleSet,
    changed_columns,
    find_unused_keys,
    read_rule_files,
)
from moirae.rules.checks import StartSpark, check_rules
from moirae.runtime.storage import find_altered_types, find_changed_types


def check_rule_files(
    start_spark: StartSpark,
    settings: Settings,
    paths: Sequence[Path],
    checked_before: Iterable[Definition] = (),
) -> tuple[list[Definition], list[Problem]]:
    """The definitions of the rules in some files, and warnings.

    `checked_before`: definitions checked earlier in this workspace; unchanged rules are not checked
    again. Raises `ProblemsError` if there is any error.
    """
    rules, problems = _read(paths, settings)
    problems += find_changed_keys(settings, rules)
    definitions: dict[str, Definition] = {}
    previous = {definition.name: definition for definition in checked_before}
    changed: list[Rule] = []
    for rule in rules.rules:
        definition = previous.get(rule.id)
        if definition is not None and _is_same(definition.rule, rule):
            definitions[rule.id] = definition
        else:
            changed.append(rule)
    if not has_errors(problems):
        checked, check_problems = check_rules(
            start_spark, settings, replace(rules, rules=tuple(changed)), definitions.values()
        )
        altered = find_altered_types(settings)
        for definition in checked:
            definitions[definition.name] = changed_columns.with_term_types(definition, altered)
        problems += check_problems
    if has_errors(problems):
        raise ProblemsError(problems)
    return [definitions[rule.id] for rule in rules.rules], problems


def _is_same(checked: Rule, rule: Rule) -> bool:
    """Whether a checked rule is one as it is read from its file."""
    return replace(checked, term_types={}) == rule


def check_changed_keys(settings: Settings) -> None:
    """Raise `ProblemsError` if changed types of columns change keys of the workspace's rules."""
    rules, _ = read_rule_files(settings.find_rule_files(), settings.table_names)
    problems = find_changed_keys(settings, rules)
    if problems:
        raise ProblemsError(problems)


def find_changed_keys(settings: Settings, rules: RuleSet) -> list[Problem]:
    """Problems of keys that changed types of columns change."""
    changed = find_changed_types(settings)
    if not changed:
        return []
    problems: list[Problem] = []
    for rule in rules.rules:
        problems += changed_columns.find_changed_keys(rule, changed)
    return problems


def _read(paths: Sequence[Path], settings: Settings) -> tuple[RuleSet, list[Problem]]:
    rules, problems = read_rule_files(paths, settings.table_names)
    return rules, [*problems, *find_unused_keys(rules)]


def select_rule_files(settings: Settings, given_paths: Sequence[Path]) -> tuple[Path, ...]:
    """The given rule files, or those of the workspace. Raises `UsageError` if there are none."""
    paths = tuple(given_paths) or settings.find_rule_files()
    if not paths and not settings.rules:
        raise UsageError(
            f"{settings.file}: `rules` is empty: name rule files, such as [rules/*.yaml]"
        )
    if not paths:
        raise UsageError(f"no rule files match {', '.join(settings.rules)}")
    for path in paths:
        if not path.is_file():
            raise UsageError(f"{path}: no such rule file")
    return paths
