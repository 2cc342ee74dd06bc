"""`moirae rules tune`: what a rule would have done with other values of its parameters."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moirae.cli.backtest_options import (
    EXIT_INCOMPLETE,
    NO_ROWS,
    BacktestWorkspace,
    RangeOptions,
    RuleFilesOption,
    evaluate_with_progress,
    open_backtest,
    parse_range,
)
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    expand_option_groups,
    format_time,
    print_json,
    print_table,
)
from moirae.errors import UsageError

if TYPE_CHECKING:
    from moirae.backtest import Backtest, BacktestRange
    from moirae.backtest.reports import KnownIncident
    from moirae.rules import Definition

_CURRENT = "*"  # marks the values of the rule file


@expand_option_groups
def tune(
    time_range: RangeOptions,
    rule: Annotated[str, typer.Argument(help="Name of the rule, with or without its group.")],
    parameter: Annotated[
        list[str],
        typer.Option(
            "--parameter",
            metavar="NAME=VALUES",
            help="Values to try: 80..99, 80..100..5 (with a step), or 80,90,95; repeatable: all "
            "combinations.",
        ),
    ],
    files: RuleFilesOption = None,
    incidents: Annotated[
        Path | None,
        typer.Option(
            "--incidents",
            metavar="FILE",
            help="Known incidents that alerts should catch, as for `rules backtest`.",
        ),
    ] = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show alerts a day, and incidents caught, for each value of a parameter of a rule.

    All values are evaluated in one pass over the archive, newest day first; Ctrl-C ends with what was
    found. Exit code 3 if a value was not evaluated over all of the range.
    """
    from moirae.backtest.reports import read_incidents
    from moirae.backtest.tuning import combine_values

    known_incidents = None if incidents is None else read_incidents(incidents)
    choose_start, end = parse_range(time_range)
    with open_backtest(workspace) as opened:
        definition = opened.load_one(files or [], rule)
        try:
            variants = combine_values(parameter, definition.spec.parameters)
        except ValueError as error:
            raise UsageError(f"--parameter: {error}") from error
        tests = _plan(opened, definition, variants, (choose_start, end))
        is_complete = evaluate_with_progress(tests, definition.name)
        report = _report(definition, tests, variants, known_incidents)
    report["complete"] = is_complete and all(test.error is None for test in tests)
    if output is OutputFormat.JSON:
        print_json(report)
    else:
        print_values(report)
    if not report["complete"]:
        raise typer.Exit(EXIT_INCOMPLETE)


def _plan(
    workspace: BacktestWorkspace,
    definition: "Definition",
    variants: Sequence[Mapping[str, Any]],
    bounds: tuple[Any, Any],
) -> "list[Backtest]":
    """A test for each variant, all over the same range."""
    from moirae.backtest import Backtest, plan_backtest, plan_together
    from moirae.backtest.tuning import check_variants

    rules = check_variants(workspace.start_spark, workspace.settings, definition.rule, variants)
    ranges: list[BacktestRange] = []
    for rule in rules:
        planned = plan_backtest(rule, workspace.archive, *bounds)
        if planned is None:
            raise UsageError(f"{definition.name}: {NO_ROWS}")
        ranges.append(planned)
    tested = plan_together(ranges)
    if tested is None:
        raise UsageError(f"{definition.name}: {NO_ROWS}")
    return [Backtest(rule, workspace.archive, tested) for rule in rules]


def _report(
    definition: "Definition",
    tests: "Sequence[Backtest]",
    variants: Sequence[Mapping[str, Any]],
    incidents: "Sequence[KnownIncident] | None",
) -> dict[str, Any]:
    """The report as JSON values."""
    from archiver.times import from_micros
    from moirae.backtest import find_notes
    from moirae.backtest.tuning import report_value

    tested = tests[0].range
    done = [test.done_from for test in tests if test.done_from is not None]
    start = from_micros(min(done, default=tested.end))
    end = from_micros(max(min(tested.end, tested.newest), min(done, default=tested.end)))
    current = definition.spec.parameters
    rows = [
        asdict(
            report_value(test, values, {**current, **values} == current, (start, end), incidents)
        )
        for test, values in zip(tests, variants, strict=True)
    ]
    return {
        "rule": definition.name,
        "from": start,
        "to": end,
        "notes": find_notes(tests[0].rule, has_alerts=tests[0].archive.has_alerts),
        "values": rows,
    }


def print_values(report: Mapping[str, Any]) -> None:
    """Print a row for each value."""
    rows = report["values"]
    note = "" if report["complete"] else " (incomplete)"
    print(f"{report['rule']}, {format_time(report['from'])} to {format_time(report['to'])}{note}")
    for text in report["notes"]:
        print(text)
    names = list(rows[0]["values"])
    has_incidents = any(row["caught"] is not None for row in rows)
    columns = ["", *names, "alerts a day", "alerts", "events"]
    if has_incidents:
        columns += ["caught", "missed", "false", "first alert after"]
    print_table(columns, (_make_row(row, names, has_incidents) for row in rows), "")
    if any(row["is_current"] for row in rows):
        print(f"{_CURRENT} the rule as it is")
    for row in rows:
        if row["error"] is not None:
            values = ", ".join(f"{name}={value}" for name, value in row["values"].items())
            print(f"{values}: not evaluated: {row['error']}")


def _make_row(row: Mapping[str, Any], names: Sequence[str], has_incidents: bool) -> list[Any]:
    cells = [_CURRENT if row["is_current"] else "", *(row["values"][name] for name in names)]
    if row["error"] is not None:
        return [*cells, "error", *[None] * (2 + 4 * has_incidents)]
    cells += [f"{row['alerts_per_day']:.2f}", row["alerts"], row["events"]]
    if has_incidents:
        delay = None if row["delay"] is None else timedelta(seconds=row["delay"])
        cells += [len(row["caught"]), len(row["missed"]), row["false_alerts"], delay]
    return cells
