"""`moirae rules check --history`: lints that a back-test of the rules finds."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from moirae.cli.backtest_options import (
    BacktestWorkspace,
    RangeOptions,
    evaluate_with_progress,
    open_backtest,
    parse_range,
)
from moirae.errors import Problem

if TYPE_CHECKING:
    from moirae.backtest import Backtest
    from moirae.backtest.reports import RulePast


def find_history_lints(workspace: Path, files: Sequence[Path], last: str | None) -> list[Problem]:
    """Warnings about rules that they do not silence. Progress goes to standard error."""
    from moirae.backtest.reports import find_in_past, find_pairs
    from moirae.lints import HISTORY_LINTS, report_findings, report_idle_silences

    with open_backtest(workspace) as opened:
        pasts = _evaluate(opened, files, RangeOptions(last=last))
    findings = {id(past): list(find_in_past(past)) for past in pasts}
    for past, finding in find_pairs(pasts):
        findings[id(past)].append(finding)
    problems: list[Problem] = []
    for past in pasts:
        definition = past.rule.definition
        problems += report_findings(definition, findings[id(past)])
        names = {name for name, _, _ in findings[id(past)]}
        checked_elsewhere = definition.spec.lint.keys() - HISTORY_LINTS
        problems += report_idle_silences(definition, names | checked_elsewhere)
    return problems


def _evaluate(
    opened: BacktestWorkspace, files: Sequence[Path], options: RangeOptions
) -> "list[RulePast]":
    """The past of all rules that have one; fewer after Ctrl-C."""
    from moirae.backtest import Backtest, plan_backtest
    from moirae.evaluation.plan import ActiveRule

    choose_start, end = parse_range(options)
    rules = [
        ActiveRule.of_workspace(definition, opened.settings)
        for definition in opened.load(files, [])
        if not definition.reads_revisions
        and not definition.spec.external
        and definition.spec.enabled
    ]
    pasts: list[RulePast] = []
    for number, rule in enumerate(rules, start=1):
        planned = plan_backtest(rule, opened.archive, choose_start, end)
        if planned is None:
            continue  # its streams have no rows yet
        test = Backtest(rule, opened.archive, planned)
        if not evaluate_with_progress([test], f"{number}/{len(rules)} {rule.name}"):
            break
        pasts.append(_make_past(opened, test))
    return pasts


def _make_past(opened: BacktestWorkspace, test: "Backtest") -> "RulePast":
    from moirae.backtest.reports import RulePast, find_row_interval

    rule = test.rule
    intervals = [
        find_row_interval(opened.archive.reader, stream, opened.archive.newest[stream])
        for stream in rule.shape.streams
    ]
    if rule.shape.period is not None:
        intervals.append(timedelta(microseconds=rule.shape.period))
    interval = max((item for item in intervals if item is not None), default=None)
    return RulePast(rule, test.list_alerts(), test.count_events(), interval)
