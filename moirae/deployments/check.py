"""From rule files to desired rules: read, check, and apply only when everything is sound."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from moirae.config import Settings
from moirae.errors import Problem, ProblemsError, UsageError
from moirae.rules import Definition, check_rules, find_unused_keys, read_rule_files


def check_rule_files(
    spark: SparkSession,
    settings: Settings,
    paths: Sequence[Path],
    checked_before: Iterable[Definition] = (),
) -> tuple[list[Definition], list[Problem]]:
    """The definitions of the rules in some files, with warnings. Raises `ProblemsError` for any error.

    `known`: what was checked before in this workspace; rules that have not changed since are not checked again.
    """
    rules, found = read_rule_files(paths, settings.table_names)
    problems = [*found, *find_unused_keys(rules)]
    before = {definition.name: definition for definition in checked_before}
    same = {rule.id for rule in rules.rules if rule.id in before and before[rule.id].rule == rule}
    definitions = {name: before[name] for name in same}
    if not any(p.severity == "error" for p in problems):
        changed = replace(rules, rules=tuple(rule for rule in rules.rules if rule.id not in same))
        made, more = check_rules(spark, settings, changed)
        definitions |= {definition.name: definition for definition in made}
        problems += more
    if any(p.severity == "error" for p in problems):
        raise ProblemsError(problems)
    return [definitions[rule.id] for rule in rules.rules], problems


def select_rule_files(settings: Settings, given_paths: Sequence[Path]) -> tuple[Path, ...]:
    """The files named on the command line, or those of the workspace. Raises `UsageError` where there are none."""
    paths = tuple(given_paths) or settings.find_rule_files()
    if not paths:
        raise UsageError(f"no rule files match {', '.join(settings.rules) or 'nothing'}")
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise UsageError(f"no such rule file: {missing[0]}")
    return paths
