"""`moirae export`: write events, contexts, alerts and answers as CSV or JSON lines."""

import csv
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from archiver.times import from_micros
from moirae.cli.options import DEFAULT_WORKSPACE, WorkspaceOption, format_count, open_workspace
from moirae.cli.pages import make_query
from moirae.cli.remote import RemoteTyper, open_remote
from moirae.runtime import write_json
from sql.rules import DeploymentGateway, LostVerdictGateway

if TYPE_CHECKING:
    from moirae.services.operations.exports import ExportKind
    from moirae.services.operations.rules import AppliedRule
    from sql.rules import DeploymentRow

app = RemoteTyper(help="Write stored data to standard output.", no_args_is_help=True)


class ExportFormat(StrEnum):
    """Formats of exported data."""

    CSV = "csv"
    JSONL = "jsonl"


ExportFormatOption = Annotated[ExportFormat, typer.Option("--format", help="Output format.")]

# A spreadsheet evaluates a cell that starts with one of these as a formula.
_FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "\n")


@app.command()
def events(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, form: ExportFormatOption = ExportFormat.JSONL
) -> None:
    """Export settled events, oldest first."""
    _export(workspace, "events", form)


@app.command()
def alerts(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, form: ExportFormatOption = ExportFormat.JSONL
) -> None:
    """Export alerts of all states, oldest first."""
    _export(workspace, "alerts", form)


@app.command()
def contexts(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, form: ExportFormatOption = ExportFormat.JSONL
) -> None:
    """Export settled contexts and surroundings of events that have recalls, oldest first."""
    _export(workspace, "contexts", form)


@app.command()
def similar(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    form: ExportFormatOption = ExportFormat.JSONL,
    recall: Annotated[
        str | None, typer.Option("--recall", help="Export only recalls with this name.")
    ] = None,
) -> None:
    """Export the last answers of similarity recalls: past events by rank, with their score."""
    _export(workspace, "similar", form, recall)


@app.command()
def recalls(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, form: ExportFormatOption = ExportFormat.JSONL
) -> None:
    """Export recalls with their last answer and coverage, followed by their stages (`then`)."""
    _export(workspace, "recalls", form)


def _export(
    workspace: Path, kind: "ExportKind", export_format: ExportFormat, recall: str | None = None
) -> None:
    from moirae.services.operations.exports import EXPORT_COLUMNS, export_rows
    from moirae.services.operations.rules import RuleSelection, list_rules

    columns = EXPORT_COLUMNS[kind]
    with open_remote() as server:
        if server is not None:
            parameters = {} if recall is None else {"recall": recall}
            write_rows(server.export(kind, parameters), columns, export_format)
            rules = list_rules(server, make_query(RuleSelection))
            _print_incomplete_rules(rules)
            _print_lost_verdicts({rule.rule: rule.lost for rule in rules if rule.lost})
            return
    # A statement whose rows are still read holds its connection: closed first, else the connection
    # waits for it for ever.
    with open_workspace(workspace) as (_, connection):
        with closing(export_rows(connection, kind, recall)) as rows:
            write_rows(rows, columns, export_format)
        _print_incomplete_rules(DeploymentGateway(connection).list_active())
        losses = LostVerdictGateway(connection).count_by_rule()
        _print_lost_verdicts({loss.rule: loss.rows for loss in losses})


def _print_incomplete_rules(rules: "Iterable[AppliedRule | DeploymentRow]") -> None:
    """Say on standard error of which rules events may be missing."""
    for rule in rules:
        if rule.state == "quarantined" or rule.error is not None:
            since = rule.settled_to
            if isinstance(since, int):
                since = from_micros(since)
            start = "the beginning" if since is None else since.isoformat()
            state = "is in quarantine" if rule.state == "quarantined" else "failed"
            print(
                f"not complete: rule {rule.rule} {state}, events from {start} on are missing",
                file=sys.stderr,
            )


def _print_lost_verdicts(losses: Mapping[str, int]) -> None:
    """Say on standard error which rules have no verdict over some rows."""
    for rule, rows in losses.items():
        print(
            f"not complete: rule {rule} has no verdict over {format_count(rows, 'row')}, "
            f"which exceeded its limits: see `moirae rules show {rule}`",
            file=sys.stderr,
        )


def write_rows(
    rows: Iterable[dict[str, Any]], columns: Sequence[str], export_format: ExportFormat
) -> None:
    """Write rows to standard output, one line each. CSV has a header line."""
    if export_format is ExportFormat.JSONL:
        for row in rows:
            write_json(_dump_json(row))
        sys.stdout.flush()
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([format_csv_cell(row[name]) for name in columns])


def format_csv_cell(value: Any) -> str:
    """A value as text of a CSV cell. A text that a spreadsheet would evaluate gets a quote."""
    if value is None:
        return ""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA_PREFIXES) else value
    text = _dump_json(value).decode()
    if isinstance(value, dict | list):
        return text
    return text.strip('"')  # IDs and times are JSON strings


def _dump_json(value: Any) -> bytes:
    return orjson.dumps(value, default=str, option=orjson.OPT_UTC_Z)
