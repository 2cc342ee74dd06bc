"""Warnings for keys of rule files that are accepted but have no effect."""

from collections.abc import Iterator

from moirae.documents import KeyPath, sort_problems
from moirae.errors import Problem
from moirae.rules.names import describe_path
from moirae.rules.rule_set import Origin, Rule, RuleSet


def find_unused_keys(rules: RuleSet) -> tuple[Problem, ...]:
    """Return a warning for each key without effect, at its position in the rule file.

    Stored rules, which have no origin, give none.
    """
    problems: list[Problem] = []
    for rule in rules.rules:
        if rule.origin is not None:
            problems += _find_in_rule(rule, rule.origin)
    return sort_problems(problems)  # and unique: every rule of a group repeats the group's keys


def _find_in_rule(rule: Rule, origin: Origin) -> Iterator[Problem]:
    group_origin = Origin(origin.document, origin.path[:2])
    for key, reason in rule.keys_without_effect().items():
        key_origin = group_origin if key == ("interval",) else origin
        yield _build_warning(key_origin, key, reason)


def _build_warning(origin: Origin, key: KeyPath, message: str) -> Problem:
    path = (*origin.path, *key)
    text = f"{describe_path(origin.document, path)}: {message}"
    return Problem(origin.file, *origin.document.key_position(path), text, "warning")
