"""`moirae rules why`: why a rule has an alert of a key at a time, or has none."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moirae.cli.backtest_options import RuleFilesOption, open_backtest, parse_time
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    escape_control,
    format_count,
    format_time,
    parse_assignments,
    print_json,
)
from moirae.config import Settings

if TYPE_CHECKING:
    import sql
    from moirae.why import Explanation

_VERDICTS = {
    "firing": "FIRING",
    "pending": "PENDING",
    "hidden": "HIDDEN by where",
    "none": "NOT FIRING",
}


def why(
    rule: Annotated[str, typer.Argument(help="Name of the rule, with or without its group.")],
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", metavar="NAME=VALUE", help="Value of a column of the rule's key; one for each."
        ),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="TIME", help="Event time. Default: the newest settled time."),
    ] = None,
    files: RuleFilesOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Explain why a rule has an alert of a key at a time, or has none: the rule stage by stage.

    The rule is evaluated over the rows that it reads for this time, by the engines of live rules.
    """
    values = parse_assignments("--key", key or [], "host=web-1")
    moment = None if at is None else parse_time("--at", at)
    with open_backtest(workspace) as opened:
        from moirae.evaluation.plan import ActiveRule
        from moirae.why import explain_alert

        definition = opened.load_one(files or [], rule)
        active = ActiveRule.of_workspace(definition, opened.settings)
        if moment is None:
            moment = (active.shape.horizon(opened.archive.watermarks) or 0) - 1
        explanation = explain_alert(active, opened.archive, values, moment)
        explanation = _add_routes(explanation, opened.settings, opened.connection)
    if output is OutputFormat.JSON:
        print_json(asdict(explanation))
    else:
        print("\n".join(map(escape_control, format_explanation(asdict(explanation)))))


def _add_routes(
    explanation: "Explanation", settings: Settings, connection: "sql.Connection"
) -> "Explanation":
    from moirae.notify import list_silences
    from moirae.why import add_routes

    at = explanation.at
    silences = {str(silence.id): silence for silence in list_silences(connection, at)}
    return add_routes(explanation, settings, silences, at)


def format_explanation(explanation: Mapping[str, Any]) -> list[str]:
    """An explanation as lines of text."""
    key = _format_values(explanation["key"])
    at = format_time(explanation["at"])
    lines = [f"{explanation['rule']} {key} at {at}: {_VERDICTS[explanation['verdict']]}"]
    lines.append(f"  {explanation['reason']}")
    lines += [f"  → {text}" for text in explanation["deciding"]]
    lines.append(
        f"reads {format_time(explanation['reads_from'])} to {format_time(explanation['reads_to'])}"
    )
    for stream in explanation["streams"]:
        late = f", {stream['late']:,} late left out" if stream["late"] else ""
        newest = "" if stream["newest"] is None else f", newest {format_time(stream['newest'])}"
        lines.append(f"  {stream['stream']}: {format_count(stream['rows'], 'row')}{late}{newest}")
    for name, rows in explanation["relations"].items():
        versions = "; ".join(map(_format_values, rows)) or "no row"
        lines.append(f"  {name}, as valid then: {versions}")
    for stage in explanation["stages"]:
        lines += _format_stage(stage)
    if explanation["events"]:
        lines.append("events")
        for event in explanation["events"]:
            values = {name: value for name, value in event.items() if name != "ts"}
            lines.append(f"  {format_time(event['ts'])} {_format_values(values)}")
    lines += _format_alert(explanation)
    return lines


def _format_stage(stage: Mapping[str, Any]) -> list[str]:
    lines = [f"{stage['name']} from {', '.join(stage['sources'])}"]
    if stage["error"] is not None:
        return [*lines, f"  not counted: {stage['error']}"]
    groups = "" if stage["groups"] is None else f", {format_count(stage['groups'], 'group')}"
    lines.append(f"  {format_count(stage['rows'], 'row')}{groups}")
    for condition in stage["conditions"]:
        mark = {True: "true ", False: "false", None: "NULL "}[condition["is_true"]]
        values = f"  {_format_values(condition['values'])}" if condition["values"] else ""
        lines.append(f"  {mark} {condition['text']}  {condition['passed']:,} left{values}")
    return lines


def _format_alert(explanation: Mapping[str, Any]) -> list[str]:
    if explanation["starts_at"] is None:
        return []
    fired = explanation["fired_at"]
    fires = "not fired yet" if fired is None else f"fired {format_time(fired)}"
    lines = ["alert", f"  starts {format_time(explanation['starts_at'])}, {fires}"]
    where = explanation["where"]
    if where is not None:
        lines.append(f"  where {where['condition']}: {_format_value(where['verdict'])}")
        for name, rows in where["answers"].items():
            lines.append(f"    {name}: {'; '.join(map(_format_values, rows)) or 'no row'}")
    for route in explanation["routes"]:
        muted = ", muted by its time intervals" if route["is_muted"] else ""
        lines.append(f"  goes to {route['receiver']} by {route['route']}{muted}")
    if not explanation["routes"]:
        lines.append("  no route takes it")
    lines += [f"  silenced by {silence}" for silence in explanation["silences"]]
    return lines


def _format_values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_format_value(value)}" for name, value in values.items())


def _format_value(value: Any) -> str:
    return "NULL" if value is None else str(value)
