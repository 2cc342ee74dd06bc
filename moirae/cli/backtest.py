"""`moirae rules backtest`: what rules would have done over the archive."""

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moirae.cli.backtest_output import print_report
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    expand_option_groups,
    format_count,
    open_workspace,
    print_json,
)
from moirae.config import Settings, parse_duration
from moirae.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from archiver.times import Micros
    from moirae.backtest import Backtest, BacktestArchive
    from moirae.evaluation.plan import ActiveRule

_DEFAULT_LAST = "7d"
_EXIT_INCOMPLETE = 3
_LOWER_PRIORITY = 10  # added to the niceness: alerts come first


@dataclass(frozen=True)
class _Range:
    """Which part of the archive is read."""

    last: Annotated[
        str | None,
        typer.Option(
            "--last",
            metavar="DURATION",
            help="Event time before the newest row. Default: 7d, unless --from is set.",
        ),
    ] = None
    since: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Alerts that start from here on.")
    ] = None
    until: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Only events before this time.")
    ] = None


@expand_option_groups
def backtest(
    time_range: _Range,
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
    baseline: Annotated[
        list[Path] | None,
        typer.Option(
            "--baseline",
            metavar="RULES",
            help="Rule file with another version of the rules, to compare with; repeatable.",
        ),
    ] = None,
    incidents: Annotated[
        Path | None,
        typer.Option(
            "--incidents",
            metavar="FILE",
            help="Known incidents, CSV or JSON lines: id, starts_at, ends_at, and labels that "
            "their alerts have.",
        ),
    ] = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show which alerts rules would have had over the archive. Nothing is stored, nobody is told.

    Days are evaluated newest first; Ctrl-C ends with what was found. Exit code 3 if a rule was not
    evaluated over all of the range.
    """
    from moirae.backtest import read_incidents

    known_incidents = None if incidents is None else read_incidents(incidents)
    choose_start, end = _parse_range(time_range)
    with _open(workspace) as (settings, start_spark, archive):
        session = _Session(settings, start_spark, archive, choose_start, end)
        tested = session.load(files or [], rule or [])
        compared = session.load(baseline, []) if baseline else []
        report = session.run(tested, {other.name: other for other in compared}, known_incidents)
    if output is OutputFormat.JSON:
        print_json(report)
    else:
        print_report(report)
    if not report["complete"]:
        raise typer.Exit(_EXIT_INCOMPLETE)


@contextmanager
def _open(
    workspace: Path,
) -> "Iterator[tuple[Settings, Callable[[], SparkSession], BacktestArchive]]":
    from archiver.spark import open_session
    from moirae.backtest import open_archive
    from recall.statements import WORKER_DAEMON

    with open_workspace(workspace) as (settings, connection):
        os.nice(_LOWER_PRIORITY)
        conf = {"spark.python.daemon.module": WORKER_DAEMON}
        warehouse = Path(settings.home) / "warehouse-backtest"
        with open_session("moirae rules backtest", warehouse, conf=conf) as spark:
            archive = open_archive(settings, connection, spark.newSession())
            yield settings, lambda: spark, archive


def _parse_range(options: _Range) -> "tuple[Callable[[Micros], Micros], Micros | None]":
    """The start, by the newest row, and the end of the range. Raises `UsageError`."""
    from archiver.times import duration_to_micros

    if options.last is not None and options.since is not None:
        raise UsageError("--last and --from exclude each other")
    end = None if options.until is None else _parse_time("--to", options.until)
    if options.since is not None:
        start = _parse_time("--from", options.since)
        if end is not None and end <= start:
            raise UsageError("--to must be later than --from")
        return lambda newest: start, end
    try:
        duration = duration_to_micros(parse_duration(options.last or _DEFAULT_LAST))
    except ValueError as error:
        raise UsageError(f"--last: {error}") from error
    return lambda newest: min(newest, end or newest) - duration, end


def _parse_time(option: str, text: str) -> "Micros":
    from archiver.ingest import parse_iso_time
    from archiver.times import to_micros

    moment = parse_iso_time(text)
    if moment is None:
        raise UsageError(f"{option}: {text!r} is not a time, such as 2026-01-31T12:00Z")
    return to_micros(moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment)


@dataclass(frozen=True)
class _Session:
    settings: Settings
    start_spark: "Callable[[], SparkSession]"
    archive: "BacktestArchive"
    choose_start: "Callable[[Micros], Micros]"
    end: "Micros | None"

    def load(self, files: Sequence[Path], names: Sequence[str]) -> "list[ActiveRule]":
        """The rules of files. Raises `ProblemsError`, and `UsageError` for unknown names."""
        from moirae.deployments import check_rule_files, select_rule_files
        from moirae.evaluation.plan import ActiveRule

        paths = select_rule_files(self.settings, files)
        definitions, _ = check_rule_files(self.start_spark, self.settings, paths)
        for name in names:
            if not any(name in (rule.name, rule.spec.alert) for rule in definitions):
                rule_names = ", ".join(rule.name for rule in definitions)
                raise UsageError(f"--rule: no rule {name!r}; rules are {rule_names}")
        return [
            ActiveRule.of_workspace(definition, self.settings)
            for definition in definitions
            if not names or definition.name in names or definition.spec.alert in names
        ]

    def run(
        self,
        rules: "Sequence[ActiveRule]",
        baselines: "Mapping[str, ActiveRule]",
        incidents: Any,
    ) -> dict[str, Any]:
        """The report as JSON values. Ends early at Ctrl-C."""
        from moirae.backtest import find_caught

        reports: list[dict[str, Any]] = []
        alerts: list[Any] = []
        is_cancelled = False
        for number, rule in enumerate(rules):
            if is_cancelled:
                reports.append({"rule": rule.name, "complete": False, "notes": ["cancelled"]})
                continue
            prefix = f"{number + 1}/{len(rules)} {rule.name}"
            report, rule_alerts, is_cancelled = self._test(rule, prefix)
            alerts += rule_alerts
            baseline = baselines.get(rule.name)
            if baseline is not None and not is_cancelled:
                report["change"], is_cancelled = self._compare(baseline, rule_alerts, prefix)
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

    def _test(self, rule: "ActiveRule", prefix: str) -> tuple[dict[str, Any], list[Any], bool]:
        """The report about a rule, its alerts, and whether the user cancelled."""
        from archiver.times import from_micros
        from moirae.backtest import count_alerts, find_notes

        report: dict[str, Any] = {"rule": rule.name, "version": rule.version, "complete": False}
        test = self._plan(rule)
        if isinstance(test, str):
            return report | {"notes": [test]}, [], False
        is_complete = self._evaluate(test, prefix)
        if test.done_from is None:
            return report | {"notes": ["cancelled before the first day"]}, [], True
        alerts = test.list_alerts()
        start, end = from_micros(test.done_from), from_micros(test.range.end)
        report |= {
            "complete": is_complete,
            "notes": find_notes(rule),
            "from": start,
            "to": end,
            "events": sum(event.ts >= test.done_from for event in test.events),
            "hidden": sum(alert.is_hidden for alert in alerts),
            "statistics": asdict(count_alerts(alerts, start, min(end, _newest(test)))),
            "alerts": list(map(asdict, alerts)),
        }
        return report, alerts, not is_complete

    def _compare(
        self, baseline: "ActiveRule", alerts: list[Any], prefix: str
    ) -> tuple[dict[str, Any] | None, bool]:
        """What changed since a baseline, and whether the user cancelled."""
        from moirae.backtest import compare_versions

        test = self._plan(baseline)
        if isinstance(test, str):
            return None, False
        is_complete = self._evaluate(test, f"{prefix} (baseline)")
        if not is_complete:
            return None, True
        change = compare_versions(test.list_alerts(), alerts)
        return {
            "version": baseline.version,
            "unchanged": change.unchanged,
            "new": list(map(asdict, change.new)),
            "gone": list(map(asdict, change.gone)),
            "moved": [
                {"before": asdict(pair.before), "after": asdict(pair.after)}
                for pair in change.moved
            ],
        }, False

    def _plan(self, rule: "ActiveRule") -> "Backtest | str":
        """A back-test, or why there is none."""
        from moirae.backtest import Backtest, plan_backtest

        if rule.reads_revisions:
            return "not tested: rules that read streams of recalls or stages have no past"
        planned = plan_backtest(rule, self.archive, self.choose_start, self.end)
        if planned is None:
            return "not tested: the archive has no settled rows of its streams in the range"
        return Backtest(rule, self.archive, planned)

    def _evaluate(self, test: "Backtest", prefix: str) -> bool:
        """Evaluate and show progress; returns False if the user cancelled."""
        from archiver.times import from_micros

        total = max(1, test.range.end - test.range.start)
        try:
            for time_range in test.evaluate():
                assert time_range.start is not None
                share = 100 * (test.range.end - time_range.start) // total
                day = from_micros(time_range.start).date()
                events = format_count(len(test.events), "event")
                print(f"{prefix}: back to {day}, {share} %, {events}", file=sys.stderr)
        except KeyboardInterrupt:
            print(f"{prefix}: cancelled", file=sys.stderr)
            return False
        return True


def _newest(test: "Backtest") -> datetime:
    from archiver.times import from_micros

    return from_micros(test.range.newest + 1)


def _caught_to_json(row: Any) -> dict[str, Any]:
    return {
        **asdict(row.incident),
        "alerts": [str(alert.id) for alert in row.alerts],
        "lead": row.lead.total_seconds(),
        "delay": row.delay.total_seconds(),
    }
