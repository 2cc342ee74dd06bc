"""`moirae rules report`: what rules are worth, by what became of their alerts."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    format_count,
    print_json,
    print_table,
)
from moirae.cli.pages import make_query
from moirae.cli.pictures import PictureOption, draw_bars, write_picture
from moirae.cli.remote import open_services

if TYPE_CHECKING:
    from sql.reports import RuleWeekRow


def report(
    rule: Annotated[
        str | None,
        typer.Argument(help="Name of the rule, with or without its group. Default: all."),
    ] = None,
    weeks: Annotated[
        int, typer.Option("--weeks", min=1, max=53, help="Number of weeks, with the present one.")
    ] = 4,
    picture: PictureOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show which rules wake people for nothing: alerts of each week, and what became of them.

    For nothing: alerts in delivered messages that nobody acknowledged or resolved with a tag.
    """
    from moirae.services.operations.overview import RuleReportQuery, report_rules

    query = make_query(RuleReportQuery, rule=rule, weeks=weeks)
    with open_services(workspace) as services:
        rows = report_rules(services, query)
    if picture is not None:
        title = f"Alerts of the last {format_count(weeks, 'week')}"
        write_picture(picture, draw_bars(title, ("for nothing", "other"), _sum_up(rows)))
    if output is OutputFormat.JSON:
        print_json(rows)
        return
    columns = ["week", "rule", "alerts", "told", "acknowledged", "minutes to acknowledge"]
    columns += ["with tag", "withdrawn", "flapping", "for nothing", "recall seconds"]
    print_table(columns, map(_format_row, rows), "no alerts and no recalls in these weeks")


def _format_row(row: "RuleWeekRow") -> tuple[Any, ...]:
    minutes = row.minutes_to_acknowledge
    return (
        row.week.isoformat(),
        row.rule,
        row.alerts,
        row.told,
        row.acknowledged,
        None if minutes is None else round(minutes, 1),
        row.tagged,
        row.withdrawn,
        row.flapping,
        row.for_nothing,
        round(row.recall_seconds, 1),
    )


def _sum_up(rows: "Sequence[RuleWeekRow]") -> list[tuple[str, int, int]]:
    """By rule: alerts for nothing and others, those most often for nothing first."""
    sums: dict[str, tuple[int, int]] = {}
    for row in rows:
        for_nothing, other_alerts = sums.get(row.rule, (0, 0))
        sums[row.rule] = for_nothing + row.for_nothing, other_alerts + row.alerts - row.for_nothing
    ordered = sorted(sums.items(), key=lambda item: (-item[1][0], -item[1][1], item[0]))
    return [(rule, *counts) for rule, counts in ordered]
