"""`export`: what was found and answered, for other programs."""

import csv
import sys
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Annotated, Any

import orjson
import typer
from psycopg.rows import dict_row
from psycopg.sql import SQL

import sql
from moirae.cli.options import DEFAULT_WORKSPACE, WorkspaceOption, open_workspace
from recall.query import order_columns

app = typer.Typer(help="Data for other programs, on standard output.", no_args_is_help=True)
_ALERT_QUERIES = sql.load("alerts")


class ExportFormat(StrEnum):
    """Forms of exported data."""

    CSV = "csv"
    JSONL = "jsonl"


ExportFormatOption = Annotated[ExportFormat, typer.Option("--format", help="How to write.")]

_EVENT_COLUMNS = ("eid", "rule", "ts", "key", "attributes")
_CONTEXT_COLUMNS = ("eid", "rule", "ts", "contexts", "surroundings")
_SIMILAR_COLUMNS = ("query", "rank", "event", "score")
_RECALL_COLUMNS = tuple(
    "id eid rule recall state revision final coverage answer estimates key error".split()
)
_ALERT_COLUMNS = ("id", "eid", "rule", "key", "labels", "state", "starts_at", "ends_at")


@app.command()
def events(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, form: ExportFormatOption = ExportFormat.JSONL
) -> None:
    """Settled events, oldest first."""
    _export(workspace, _ALERT_QUERIES["export_events"], _EVENT_COLUMNS, form)


@app.command()
def alerts(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, form: ExportFormatOption = ExportFormat.JSONL
) -> None:
    """Alerts of all states, oldest first."""
    _export(workspace, _ALERT_QUERIES["export_alerts"], _ALERT_COLUMNS, form)


@app.command()
def contexts(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, form: ExportFormatOption = ExportFormat.JSONL
) -> None:
    """Settled contexts and surroundings of the events that recalls are about, oldest first."""
    _export(workspace, sql.load("contexts")["export"], _CONTEXT_COLUMNS, form)


@app.command()
def similar(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    form: ExportFormatOption = ExportFormat.JSONL,
    recall: Annotated[
        str | None, typer.Option("--recall", help="Only of recalls of this name.")
    ] = None,
) -> None:
    """The last answers of similarity recalls: for each event (query) the past events by rank, with their score."""
    _export(
        workspace, sql.load("recalls")["export_similar"], _SIMILAR_COLUMNS, form, {"recall": recall}
    )


@app.command()
def recalls(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, form: ExportFormatOption = ExportFormat.JSONL
) -> None:
    """Every recall with its last answer and what that covers, oldest event first."""
    _export(
        workspace,
        sql.load("recalls")["export_recalls"],
        _RECALL_COLUMNS,
        form,
        shown=_order_answer_columns,
    )


def _order_answer_columns(row: dict[str, Any]) -> dict[str, Any]:
    """An SQL answer with its columns in the order of its SELECT."""
    text = row.pop("sql")
    if not text or not row["answer"]:
        return row
    return {
        **row,
        "answer": order_columns(text, row["answer"]),
        "estimates": order_columns(text, row["estimates"] or []),
    }


def _export(
    workspace: Any,
    query: SQL,
    columns: tuple[str, ...],
    form: ExportFormat,
    values: Mapping[str, Any] | None = None,
    shown: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> None:
    with (
        open_workspace(workspace) as (_, connection),
        connection.transaction(),
        # A cursor on the server: the rows never have to fit in memory.
        connection.cursor("export", row_factory=dict_row) as cursor,
    ):
        write_rows(map(shown, cursor.execute(query, values)), columns, form)


def write_rows(
    rows: Iterable[dict[str, Any]], columns: tuple[str, ...], export_format: ExportFormat
) -> None:
    """Rows on standard output."""
    if export_format is ExportFormat.JSONL:
        for row in rows:
            sys.stdout.buffer.write(orjson.dumps(row, default=str, option=orjson.OPT_UTC_Z) + b"\n")
        sys.stdout.buffer.flush()
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([format_csv_cell(row[name]) for name in columns] for row in rows)


# With these a spreadsheet's formula begins.
_FORMULA_PREFIXES = ("=", "+", "-", "@", "\t", "\r", "\n")


def format_csv_cell(value: Any) -> str:
    """A value as a cell that no spreadsheet takes for a formula: such a text gets a leading quote."""
    if value is None:
        return ""
    text = (
        value
        if isinstance(value, str)
        else orjson.dumps(value, default=str, option=orjson.OPT_UTC_Z).decode()
    )
    text = text.strip('"') if not isinstance(value, str | dict | list) else text
    return f"'{text}" if isinstance(value, str) and text.startswith(_FORMULA_PREFIXES) else text
