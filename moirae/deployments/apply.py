"""From rule files to desired rules: read, check, and apply only when everything is sound."""

from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import SparkSession

from moirae.errors import Problem, ProblemsError, UsageError
from moirae.rules.check import check
from moirae.rules.definition import Definition
from moirae.rules.parse import read_rule_files
from moirae.settings import Settings


def checked(spark: SparkSession, settings: Settings, paths: Sequence[Path]) -> tuple[list[Definition], list[Problem]]:
    """The definitions of the rules in some files, with warnings. Raises `ProblemsError` for any error."""
    rules, found = read_rule_files(paths, settings.table_names)
    problems = list(found)
    definitions: list[Definition] = []
    if not any(p.severity == "error" for p in problems):
        definitions, more = check(spark, settings, rules)
        problems += more
    if any(p.severity == "error" for p in problems):
        raise ProblemsError(problems)
    return definitions, problems


def rule_files(settings: Settings, named: Sequence[Path]) -> tuple[Path, ...]:
    """The files named on the command line, or those of the workspace. Raises `UsageError` where there are none."""
    paths = tuple(named) or settings.rule_files()
    if not paths:
        raise UsageError(f"no rule files match {', '.join(settings.rules) or 'nothing'}")
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise UsageError(f"no such rule file: {missing[0]}")
    return paths
