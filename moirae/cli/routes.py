"""`moirae routes`: show and test routes of notifications, import those of Alertmanager."""

from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    parse_assignments,
    print_json,
    print_table,
)
from moirae.cli.remote import open_services

app = typer.Typer(
    help="Show and test the routes of alerts to receivers, and import those of Alertmanager.",
    no_args_is_help=True,
)
_COLUMNS = ("receiver", "route", "group", "muted")
EXIT_REMARKS = 3


def show_routes(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, output: OutputOption = OutputFormat.TABLE
) -> None:
    """Show the tree of routes, and the alerts that take each of them now."""
    from moirae.services.operations.notifications import list_routes

    with open_services(workspace) as services:
        routes = list_routes(services)
    if output is OutputFormat.JSON:
        print_json(routes)
        return
    for route in routes:
        print(_format_route(route))
        for alert in route.alerts:
            print(f"{'  ' * (route.depth + 1)}- {_format_alert(alert)}")
    if not routes:
        print("no routes: alerts are not sent")


def match_labels(
    labels: Annotated[list[str], typer.Argument(metavar="NAME=VALUE…", help="Labels of an alert.")],
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show which receivers an alert with some labels takes. Exit code 1 if there is none."""
    from moirae.services.operations.notifications import LabelsBody, match_routes

    body = LabelsBody(labels=parse_assignments("labels", labels, "severity=page"))
    with open_services(workspace) as services:
        matches = match_routes(services, body)
    if output is OutputFormat.JSON:
        print_json(matches)
    else:
        rows = [
            [match.receiver, match.route, _format_labels(match.group), "yes" if match.muted else ""]
            for match in matches
        ]
        print_table(_COLUMNS, rows, "no route matches: the alert is not sent")
    raise typer.Exit(0 if matches else 1)


def import_configuration(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Configuration of Alertmanager.")],
) -> None:
    """Convert a configuration of Alertmanager to keys of the workspace file, printed as YAML.

    What is not converted is listed on standard error; exit code 3 then.
    """
    import sys

    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    from moirae.errors import UsageError
    from moirae.notify import convert_alertmanager

    yaml = YAML(typ="safe", pure=True)
    try:
        config = yaml.load(file.read_text(encoding="utf-8"))
        conversion = convert_alertmanager(config if isinstance(config, dict) else {})
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from error
    except (YAMLError, UnicodeDecodeError, ValueError) as error:
        raise UsageError(f"{file}: {error}") from error
    output = YAML()
    output.default_flow_style = False
    # Values that the file shares by anchors are written out: workspace files have none.
    output.representer.ignore_aliases = lambda _: True
    output.dump(conversion.document, sys.stdout)
    for remark in conversion.remarks:
        print(f"{file}: {remark}", file=sys.stderr)
    raise typer.Exit(EXIT_REMARKS if conversion.remarks else 0)


def _format_route(route: Any) -> str:
    line = f"{'  ' * route.depth}{route.matchers} → {route.receiver or 'not sent'}"
    if not route.receiver:
        return line
    line += f"  group by [{', '.join(route.group_by)}]"
    line += f", wait {_format_seconds(route.group_wait_seconds)}"
    line += f", interval {_format_seconds(route.group_interval_seconds)}"
    line += f", repeat {_format_seconds(route.repeat_interval_seconds)}"
    if route.goes_on:
        line += ", continue"
    if route.muted:
        line += ", muted now"
    return line


def _format_seconds(seconds: float) -> str:
    """A duration as the workspace file writes it."""
    from moirae.config import format_duration

    return format_duration(timedelta(seconds=seconds))


def _format_alert(alert: Any) -> str:
    text = f"{alert.rule} {_format_labels(alert.labels)}"
    if alert.silenced_by:
        text += f" (silenced by {', '.join(str(silence)[:8] for silence in alert.silenced_by)})"
    if alert.inhibited:
        text += " (inhibited)"
    return text


def _format_labels(labels: Any) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(labels.items()))
