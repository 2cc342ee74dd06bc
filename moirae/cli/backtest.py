"""`moirae rules backtest`: what rules would have done over the archive."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moirae.cli.backtest_options import (
    EXIT_INCOMPLETE,
    BacktestWorkspace,
    RangeOptions,
    evaluate_with_progress,
    open_backtest,
    parse_inputs,
    parse_range,
)
from moirae.cli.backtest_output import MAX_LISTED, print_report
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    expand_option_groups,
    print_json,
)
from moirae.cli.pictures import PictureOption, draw_calendar, write_picture

if TYPE_CHECKING:
    from archiver.times import Micros
    from moirae.backtest import AlertColumns, BacktestAlert, RuleChange
    from moirae.backtest.reports import LateRowFinder
    from moirae.evaluation.plan import ActiveRule


@dataclass(frozen=True)
class ReportOptions:
    """What is reported beside the alerts."""

    baseline: Annotated[
        list[Path] | None,
        typer.Option(
            "--baseline",
            metavar="RULES",
            help="Rule file with another version of the rules, to compare with; repeatable.",
        ),
    ] = None
    incidents: Annotated[
        Path | None,
        typer.Option(
            "--incidents",
            metavar="FILE",
            help="Known incidents, CSV or JSON lines: id, starts_at, ends_at, and labels that "
            "their alerts have.",
        ),
    ] = None
    picture: PictureOption = None


@expand_option_groups
def backtest(
    time_range: RangeOptions,
    reported: ReportOptions,
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[RULES]...", help="Rule files. Default: the rule files of the workspace."
        ),
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option("--rule", help="Only this rule, named with or without its group; repeatable."),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option(
            "--input",
            metavar="STREAM=FILE",
            help="Read a stream from a file, and no stream from the archive; repeatable.",
        ),
    ] = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show which alerts rules would have had over the archive. Nothing is stored, nobody is told.

    Days are evaluated newest first; Ctrl-C ends with what was found. Exit code 3 if a rule was not
    evaluated over all of the range.
    """
    from moirae.backtest.reports import LateRowFinder, read_incidents

    path = reported.incidents
    known_incidents = None if path is None else read_incidents(path)
    choose_start, end = parse_range(time_range)
    with open_backtest(workspace, parse_inputs(inputs or [])) as opened:
        lists_all = output is OutputFormat.JSON or bool(reported.picture or path)
        late_rows = LateRowFinder(opened.archive.reader)
        session = _Session(opened, choose_start, end, late_rows, lists_all)
        tested = session.load(files or [], rule or [])
        compared = session.load(reported.baseline, []) if reported.baseline else []
        report = session.run(tested, {other.name: other for other in compared}, known_incidents)
    if reported.picture is not None:
        write_picture(reported.picture, _draw(report["rules"]))
    if output is OutputFormat.JSON:
        print_json(report)
    else:
        print_report(report)
    if not report["complete"]:
        raise typer.Exit(EXIT_INCOMPLETE)


def _draw(reports: Sequence[Mapping[str, Any]]) -> str:
    """The alerts of all rules by day and hour."""
    tested = [report for report in reports if "alerts" in report]
    days = sorted({day for report in tested for day in report["statistics"]["by_day"]})
    times = [
        alert["fired_at"].astimezone(UTC)
        for report in tested
        for alert in report["alerts"]
        if alert["fired_at"] is not None and not alert["is_hidden"]
    ]
    rules = ", ".join(report["rule"] for report in tested) or "no rules"
    return draw_calendar(f"Alerts of {rules}", days, times)


@dataclass(frozen=True)
class _Session:
    workspace: BacktestWorkspace
    choose_start: "Callable[[Micros], Micros]"
    end: "Micros | None"
    late_rows: "LateRowFinder"
    lists_all: bool
    """Whether all alerts are wanted, not only those that a table shows."""

    def load(self, files: Sequence[Path], names: Sequence[str]) -> "list[ActiveRule]":
        """The rules of files. Raises `ProblemsError`, and `UsageError` for unknown names."""
        from moirae.evaluation.plan import ActiveRule

        return [
            ActiveRule.of_workspace(definition, self.workspace.settings)
            for definition in self.workspace.load(files, names)
        ]

    def run(
        self,
        rules: "Sequence[ActiveRule]",
        baselines: "Mapping[str, ActiveRule]",
        incidents: Any,
    ) -> dict[str, Any]:
        """The report as JSON values. Ends early at Ctrl-C."""
        from moirae.backtest import ChangePlanner
        from moirae.backtest.reports import find_caught

        planner = ChangePlanner(self.workspace.archive, self.choose_start, self.end)
        reports: list[dict[str, Any]] = []
        alerts: list[Any] = []
        is_cancelled = False
        for number, rule in enumerate(rules):
            if is_cancelled:
                reports.append({"rule": rule.name, "complete": False, "notes": ["cancelled"]})
                continue
            change = planner.plan(rule, baselines.get(rule.name))
            report, rule_alerts, is_cancelled = self._test(
                change, f"{number + 1}/{len(rules)} {rule.name}"
            )
            alerts += rule_alerts
            reports.append(report)
        result: dict[str, Any] = {
            "complete": all(report["complete"] for report in reports),
            "rules": reports,
        }
        if incidents is not None:
            caught = find_caught(incidents, alerts)
            result["incidents"] = {
                "caught": [_caught_to_json(row) for row in caught.caught],
                "missed": list(map(asdict, caught.missed)),
                "false_alerts": [str(alert.id) for alert in caught.false_alerts],
            }
        return result

    def _test(
        self, change: "RuleChange", prefix: str
    ) -> "tuple[dict[str, Any], list[BacktestAlert], bool]":
        """The report about a rule, its alerts, and whether the user cancelled."""
        from archiver.times import from_micros
        from moirae.backtest import find_notes
        from moirae.backtest.reports import count_alerts

        rule = change.rule
        report: dict[str, Any] = {"rule": rule.name, "version": rule.version, "complete": False}
        if change.problem is not None:
            return report | {"notes": [f"not tested: {change.problem}"]}, [], False
        is_complete = evaluate_with_progress(change.tests, prefix)
        if change.error is not None:
            raise change.error
        if change.done_from is None:
            return report | {"notes": ["cancelled before the first day"]}, [], True
        folded = change.fold_alerts()
        if self.lists_all or change.before is not None or rule.spec.recall:
            alerts = folded.list_all()
        else:
            alerts = folded.list_newest(MAX_LISTED)
        start, tested = from_micros(change.done_from), change.range
        report |= {
            "complete": is_complete,
            "notes": find_notes(rule, has_alerts=self.workspace.archive.has_alerts),
            "from": start,
            "to": from_micros(min(tested.end, tested.newest)),
            "events": change.tests[0].count_events(),
            "hidden": int(folded.is_hidden.sum()),
            "statistics": asdict(
                count_alerts(folded, start, from_micros(min(tested.end, tested.newest + 1)))
            ),
            "alerts": list(map(asdict, alerts)),
            "late_rows": self._find_late_rows(rule, alerts),
        }
        if change.before is not None:
            report["change"] = self._compare(change, change.before, folded)
        return report, alerts, not is_complete

    def _find_late_rows(
        self, rule: "ActiveRule", alerts: "Sequence[BacktestAlert]"
    ) -> list[dict[str, Any]]:
        """The alerts before which recalls read rows that came late, with their numbers."""
        from archiver.times import to_micros

        times = {to_micros(alert.starts_at) for alert in alerts if alert.fired_at is not None}
        late = self.late_rows.find(rule, times)
        return [
            {"id": alert.id, "starts_at": alert.starts_at, "labels": alert.labels, "rows": rows}
            for alert in alerts
            if alert.fired_at is not None
            and (rows := late.get(to_micros(alert.starts_at))) is not None
        ]

    def _compare(
        self, change: "RuleChange", before: "ActiveRule", alerts: "AlertColumns"
    ) -> dict[str, Any]:
        """What changed since the version before."""
        difference = change.compare(alerts)
        return {
            "version": before.version,
            "unchanged": difference.unchanged,
            "new": [self._describe(change.rule, alert) for alert in difference.list_new()],
            "gone": [self._describe(before, alert) for alert in difference.list_gone()],
            "moved": [
                {
                    "before": self._describe(before, pair.before),
                    "after": self._describe(change.rule, pair.after),
                }
                for pair in difference.list_moved()
            ],
        }

    def _describe(self, rule: "ActiveRule", alert: "BacktestAlert") -> dict[str, Any]:
        """An alert with the queries for its rows."""
        from moirae.backtest.reports import list_row_queries

        queries = list_row_queries(self.workspace.settings, rule, alert)
        return {**asdict(alert), "rows": queries}


def _caught_to_json(row: Any) -> dict[str, Any]:
    return {
        **asdict(row.incident),
        "alerts": [str(alert.id) for alert in row.alerts],
        "lead": row.lead.total_seconds(),
        "delay": row.delay.total_seconds(),
    }
