"""Evaluates a back-test that a client has started, and describes what it changes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from pyspark.sql import SparkSession

import sql
from archiver.times import Micros, duration_to_micros, from_micros
from moirae.alerts import Positions
from moirae.backtest import (
    AlertColumns,
    ChangePlanner,
    RuleChange,
    find_notes,
    open_archive,
)
from moirae.backtest.reports import list_row_queries
from moirae.config import Settings
from moirae.deployments import RuleRegistry, check_draft, check_rule_files
from moirae.errors import Problem, ProblemsError, UsageError
from moirae.evaluation.plan import ActiveRule
from moirae.lints import find_lints
from moirae.rules import Definition
from moirae.services.operations.backtests import (
    AlertChange,
    BacktestBody,
    BacktestResult,
    ChangedAlert,
    ChangedRule,
    parse_last,
)
from moirae.services.operations.rules import RuleDocument, write_rule_files

_MAX_ALERTS = 2_000  # of each version that are listed
_MAX_QUERIES = 100  # new or gone alerts that have queries for their rows


@dataclass(frozen=True)
class BacktestProgress:
    """How far a back-test is, 0 to 1. `describe`: what it has found, before its next step."""

    share: float
    describe: Callable[[], BacktestResult]


class _Files(NamedTuple):
    """The checked rules, those before, and what the check found."""

    rules: Sequence[Definition]
    before: Sequence[Definition]
    problems: Sequence[Problem]


def run_backtest(
    settings: Settings,
    connection: sql.Connection,
    start_spark: Callable[[], SparkSession],
    body: BacktestBody,
) -> Iterator[BacktestProgress]:
    """Check rule files, evaluate them newest day first, and yield what was found after each step.

    The last one is the whole. Files with errors are not evaluated. Raises `UsageError`.
    """
    try:
        if body.base is None:
            files = _check_draft(settings, connection, start_spark, body)
        else:
            files = _check_files(settings, start_spark, body.files, body.base)
    except ProblemsError as error:
        yield BacktestProgress(1.0, partial(BacktestResult, problems=error.problems))
        return
    if body.check_only:
        yield BacktestProgress(1.0, partial(BacktestResult, problems=files.problems))
        return
    yield BacktestProgress(0.0, partial(BacktestResult, problems=files.problems))
    archive = open_archive(settings, connection, start_spark().newSession())
    span = duration_to_micros(parse_last(body.last))
    planner = ChangePlanner(archive, lambda newest: newest - span)
    rules = _select_evaluated(settings, files.rules)
    before = {rule.name: rule for rule in _select_evaluated(settings, files.before)}
    if body.base is None:
        changes = [planner.plan(rule, before.get(rule.name)) for rule in rules]
    else:
        changes = planner.plan_changes(rules, before)
    yield from _evaluate(settings, changes, files.problems)


def _select_evaluated(settings: Settings, definitions: Sequence[Definition]) -> list[ActiveRule]:
    return [
        ActiveRule.of_workspace(definition, settings)
        for definition in definitions
        if definition.spec.enabled and not definition.spec.external
    ]


def _check_draft(
    settings: Settings,
    connection: sql.Connection,
    start_spark: Callable[[], SparkSession],
    body: BacktestBody,
) -> _Files:
    """The rule of a draft, and the applied one of its name."""
    if len(body.files) != 1 or body.files[0].content is None:
        raise UsageError("a draft is one rule file with its content")
    applied = RuleRegistry(connection).desired_rules()
    content = body.files[0].content
    definition, problems = check_draft(start_spark, settings, content, body.rule, applied)
    before = [rule for rule in applied if rule.name == definition.name]
    return _Files([definition], before, [*problems, *find_lints(settings, [definition])])


def _check_files(
    settings: Settings,
    start_spark: Callable[[], SparkSession],
    files: Sequence[RuleDocument],
    base: Sequence[RuleDocument],
) -> _Files:
    definitions: Sequence[Definition] = []
    if files:
        with write_rule_files(files) as paths:
            definitions, _ = check_rule_files(start_spark, settings, paths)
    before, problems = _check_base(settings, start_spark, base)
    return _Files(definitions, before, problems)


def _check_base(
    settings: Settings, start_spark: Callable[[], SparkSession], base: Sequence[RuleDocument]
) -> tuple[Sequence[Definition], list[Problem]]:
    """The rules of the files that have no error, and warnings for those of the others.

    The change may mend what is wrong with the files before it.
    """
    warnings: list[Problem] = []
    while base:
        try:
            with write_rule_files(base) as paths:
                return check_rule_files(start_spark, settings, paths)[0], warnings
        except ProblemsError as error:
            wrong = {problem.file for problem in error.problems if problem.severity == "error"}
            remaining = [document for document in base if document.name not in wrong]
            if len(remaining) == len(base):
                raise
            base = remaining
            for problem in error.problems:
                message = (
                    f"not compared with the version before, which has an error: {problem.message}"
                )
                warnings.append(replace(problem, message=message, severity="warning"))
    return [], warnings


def _evaluate(
    settings: Settings, changes: Sequence[RuleChange], problems: Sequence[Problem]
) -> Iterator[BacktestProgress]:
    done: list[ChangedRule] = []

    def describe(*unfinished: RuleChange) -> BacktestResult:
        described = [_describe(settings, change) for change in unfinished]
        return BacktestResult(rules=[*done, *described], problems=problems)

    for number, change in enumerate(changes):
        for _ in change.evaluate():
            share = (number + change.share_done()) / len(changes)
            if change.share_done() < 1:
                yield BacktestProgress(share, partial(describe, change))
        done.append(_describe(settings, change))
        yield BacktestProgress((number + 1) / len(changes), describe)
    if not changes:
        yield BacktestProgress(1.0, describe)


def _describe(settings: Settings, change: RuleChange) -> ChangedRule:
    rule, before = change.rule, change.before
    described = ChangedRule(rule.name, rule.version, None if before is None else before.version)
    problem = change.problem
    if change.error is not None:
        problem = str(change.error).strip().partition("\n")[0]
    if problem is not None:
        return replace(described, problem=problem)
    alerts = change.fold_alerts()
    difference = change.compare(alerts)
    tested, done_from = change.range, change.done_from
    end: Micros = min(tested.end, tested.newest + 1)
    kinds = _name_changes(new=difference.new, moved=difference.moved_after)
    kinds_before = _name_changes(gone=difference.gone, moved=difference.moved_before)
    return replace(
        described,
        start=from_micros(tested.start),
        end=from_micros(end),
        evaluated_from=None if done_from is None else from_micros(done_from),
        events=change.tests[0].count_events(),
        alerts=len(alerts.shown),
        hidden=int(alerts.is_hidden.sum()),
        new=len(difference.new),
        gone=len(difference.gone),
        moved=len(difference.moved_after),
        unchanged=difference.unchanged,
        listed=_list_alerts(settings, rule, alerts, kinds),
        listed_before=[]
        if before is None
        else _list_alerts(settings, before, difference.before, kinds_before),
        notes=find_notes(rule),
    )


def _name_changes(**positions: Positions) -> dict[int, AlertChange]:
    """The change of alerts by position; `positions`: by change."""
    kinds: dict[int, AlertChange] = {}
    for change, changed in positions.items():
        kinds |= dict.fromkeys(changed.tolist(), change)
    return kinds


def _list_alerts(
    settings: Settings, rule: ActiveRule, alerts: AlertColumns, changes: Mapping[int, AlertChange]
) -> list[ChangedAlert]:
    """The newest alerts, oldest first. `changes`: by position; others are unchanged."""
    listed: list[ChangedAlert] = []
    query_count = 0
    positions = alerts.shown_by_start[-_MAX_ALERTS:][::-1]
    for position, alert in zip(positions.tolist(), alerts.make_alerts(positions), strict=True):
        change = changes.get(position, "unchanged")
        rows: dict[str, str] = {}
        if change in ("new", "gone") and query_count < _MAX_QUERIES:
            rows = list_row_queries(settings, rule, alert)
            query_count += 1
        times = (alert.starts_at, alert.fired_at, alert.ends_at)
        listed.append(ChangedAlert(change, *times, dict(alert.labels), rows))
    return listed[::-1]
