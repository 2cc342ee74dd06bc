"""`moirae export`: write events, contexts, alerts and answers as CSV or JSON lines."""

import csv
import sys
from collections.abc import Iterable
from enum import StrEnum
from itertools import chain
from operator import attrgetter
from typing import Annotated, Any

import orjson
import typer

import sql
from moirae.cli.options import DEFAULT_WORKSPACE, WorkspaceOption, open_workspace

app = typer.Typer(help="Write stored data to standard output.", no_args_is_help=True)


class ExportFormat(StrEnum):
    """Formats of exported data."""

    CSV = "csv"
    JSONL = "jsonl"


ExportFormatOption = Annotated[ExportFormat, typer.Option("--format", help="Output format.")]

_EVENT_COLUMNS = ("eid", "rule", "ts", "key", "attributes")
_CONTEXT_COLUMNS = ("eid", "rule", "ts", "contexts", "surroundings")
_SIMILAR_COLUMNS = ("query", "rank", "event", "score")
_RECALL_COLUMNS = (
    "id",
    "eid",
    "rule",
    "recall",
    "state",
    "revision",
    "final",
    "coverage",
    "answer",
    "estimates",
    "key",
    "error",
)
_ALERT_COLUMNS = (
    "id",
    "eid",
    "rule",
    "key",
    "labels",
    "state",
    "starts_at",
    "ends_at",
    "history",
    "history_final",
)

# A spreadsheet evaluates a cell that starts with one of these as a formula.
_FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "\n")


@app.command()
def events(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, form: ExportFormatOption = ExportFormat.JSONL
) -> None:
    """Export settled events, oldest first."""
    with open_workspace(workspace) as (_, connection):
        _write_records(sql.EventGateway(connection).export(), _EVENT_COLUMNS, form)


@app.command()
def alerts(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, form: ExportFormatOption = ExportFormat.JSONL
) -> None:
    """Export alerts of all states, oldest first."""
    with open_workspace(workspace) as (_, connection):
        _write_records(sql.AlertGateway(connection).export(), _ALERT_COLUMNS, form)


@app.command()
def contexts(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, form: ExportFormatOption = ExportFormat.JSONL
) -> None:
    """Export settled contexts and surroundings of events that have recalls, oldest first."""
    with open_workspace(workspace) as (_, connection):
        _write_records(sql.ContextGateway(connection).export(), _CONTEXT_COLUMNS, form)


@app.command()
def similar(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    form: ExportFormatOption = ExportFormat.JSONL,
    recall: Annotated[
        str | None, typer.Option("--recall", help="Export only recalls with this name.")
    ] = None,
) -> None:
    """Export the last answers of similarity recalls: past events by rank, with their score."""
    with open_workspace(workspace) as (_, connection):
        rows = sql.RevisionGateway(connection).export_hits(recall)
        _write_records(rows, _SIMILAR_COLUMNS, form)


@app.command()
def recalls(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, form: ExportFormatOption = ExportFormat.JSONL
) -> None:
    """Export each recall with its last answer and coverage, then the stages of `then`."""
    with open_workspace(workspace) as (_, connection):
        recall_rows = map(_recall_to_json, sql.RevisionGateway(connection).export_last())
        stage_rows = map(_stage_to_json, sql.RowRevisionGateway(connection).export_stages())
        write_rows(chain(recall_rows, stage_rows), _RECALL_COLUMNS, form)


def _stage_to_json(stage: sql.StageRow) -> dict[str, Any]:
    """A line of the export: the present rows of a stage about an event."""
    row: dict[str, Any] = dict.fromkeys(_RECALL_COLUMNS)
    row |= {name: getattr(stage, name) for name in ("eid", "rule", "state", "revision", "error")}
    row |= {"recall": stage.name, "final": stage.state != "running", "answer": stage.rows}
    row["key"] = stage.key
    return row


def _recall_to_json(recall: sql.ExportedRecallRow) -> dict[str, Any]:
    """A line of the export; an SQL answer has its columns in the order of its SELECT."""
    from recall.query import order_columns

    row = {name: getattr(recall, name) for name in recall.__slots__}
    text = row.pop("sql")
    if not text or not row["answer"]:
        return row
    row["answer"] = order_columns(text, row["answer"])
    row["estimates"] = order_columns(text, row["estimates"] or [])
    return row


def _write_records(
    records: Iterable[Any], columns: tuple[str, ...], export_format: ExportFormat
) -> None:
    """Write records of the database, whose fields are the columns."""
    values = attrgetter(*columns)
    rows = (dict(zip(columns, values(record), strict=True)) for record in records)
    write_rows(rows, columns, export_format)


def write_rows(
    rows: Iterable[dict[str, Any]], columns: tuple[str, ...], export_format: ExportFormat
) -> None:
    """Write rows to standard output, one line each. CSV has a header line."""
    if export_format is ExportFormat.JSONL:
        for row in rows:
            sys.stdout.buffer.write(_dump_json(row) + b"\n")
        sys.stdout.buffer.flush()
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
