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
from moirae.cli.options import WORKSPACE, Workspace, database
from recall.query.split import in_order

app = typer.Typer(help="Data for other programs, on standard output.", no_args_is_help=True)
_ALERTS = sql.load("alerts")


class Format(StrEnum):
    """Forms of exported data."""

    CSV = "csv"
    JSONL = "jsonl"


FormatOption = Annotated[Format, typer.Option("--format", help="How to write.")]

_EVENT = ("eid", "rule", "ts", "key", "attributes")
_CONTEXT = ("eid", "rule", "ts", "contexts", "surroundings")
_SIMILAR = ("query", "rank", "event", "score")
_RECALL = tuple("id eid rule recall state revision final coverage answer estimates key error".split())
_ALERT = ("id", "eid", "rule", "key", "labels", "state", "starts_at", "ends_at")


@app.command()
def events(workspace: Workspace = WORKSPACE, form: FormatOption = Format.JSONL) -> None:
    """Settled events, oldest first."""
    _export(workspace, _ALERTS["export_events"], _EVENT, form)


@app.command()
def alerts(workspace: Workspace = WORKSPACE, form: FormatOption = Format.JSONL) -> None:
    """Alerts of all states, oldest first."""
    _export(workspace, _ALERTS["export_alerts"], _ALERT, form)


@app.command()
def contexts(workspace: Workspace = WORKSPACE, form: FormatOption = Format.JSONL) -> None:
    """Settled contexts and surroundings of the events that recalls are about, oldest first."""
    _export(workspace, sql.load("contexts")["export"], _CONTEXT, form)


@app.command()
def similar(
    workspace: Workspace = WORKSPACE,
    form: FormatOption = Format.JSONL,
    recall: Annotated[str | None, typer.Option("--recall", help="Only of recalls of this name.")] = None,
) -> None:
    """The last answers of similarity recalls: for each event (query) the past events by rank, with their score."""
    _export(workspace, sql.load("recalls")["export_similar"], _SIMILAR, form, {"recall": recall})


@app.command()
def recalls(workspace: Workspace = WORKSPACE, form: FormatOption = Format.JSONL) -> None:
    """Every recall with its last answer and what that covers, oldest event first."""
    _export(workspace, sql.load("recalls")["export_recalls"], _RECALL, form, shown=_in_order)


def _in_order(row: dict[str, Any]) -> dict[str, Any]:
    """An SQL answer with its columns in the order of its SELECT."""
    text = row.pop("sql")
    if not text or not row["answer"]:
        return row
    return {**row, "answer": in_order(text, row["answer"]), "estimates": in_order(text, row["estimates"] or [])}


def _export(
    workspace: Any,
    query: SQL,
    columns: tuple[str, ...],
    form: Format,
    values: Mapping[str, Any] | None = None,
    shown: Callable[[dict[str, Any]], dict[str, Any]] = dict,
) -> None:
    with (
        database(workspace) as (_, connection),
        connection.transaction(),
        # A cursor on the server: the rows never have to fit in memory.
        connection.cursor("export", row_factory=dict_row) as cursor,
    ):
        write(map(shown, cursor.execute(query, values)), columns, form)


def write(rows: Iterable[dict[str, Any]], columns: tuple[str, ...], form: Format) -> None:
    """Rows on standard output."""
    if form is Format.JSONL:
        for row in rows:
            sys.stdout.buffer.write(orjson.dumps(row, default=str, option=orjson.OPT_UTC_Z) + b"\n")
        sys.stdout.buffer.flush()
        return
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([csv_cell(row[name]) for name in columns] for row in rows)


# With these a spreadsheet's formula begins.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def csv_cell(value: Any) -> str:
    """A value as a cell that no spreadsheet takes for a formula: such a text gets a leading quote."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else orjson.dumps(value, default=str, option=orjson.OPT_UTC_Z).decode()
    text = text.strip('"') if not isinstance(value, str | dict | list) else text
    return f"'{text}" if isinstance(value, str) and text.startswith(_FORMULA) else text
