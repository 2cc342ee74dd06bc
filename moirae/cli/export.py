"""`export`: events and alerts for other programs."""

import csv
import sys
from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any

import orjson
import typer
from psycopg.rows import dict_row

import sql
from moirae.cli.options import WORKSPACE, Workspace, database

app = typer.Typer(help="Data for other programs, on standard output.", no_args_is_help=True)
_QUERIES = sql.load("alerts")


class Format(StrEnum):
    """Forms of exported data."""

    CSV = "csv"
    JSONL = "jsonl"


FormatOption = Annotated[Format, typer.Option("--format", help="How to write.")]

_EVENT = ("eid", "rule", "ts", "key", "attributes")
_ALERT = ("id", "eid", "rule", "key", "labels", "state", "starts_at", "ends_at")


@app.command()
def events(workspace: Workspace = WORKSPACE, form: FormatOption = Format.JSONL) -> None:
    """Settled events, oldest first."""
    _export(workspace, "export_events", _EVENT, form)


@app.command()
def alerts(workspace: Workspace = WORKSPACE, form: FormatOption = Format.JSONL) -> None:
    """Alerts of all states, oldest first."""
    _export(workspace, "export_alerts", _ALERT, form)


def _export(workspace: Any, query: str, columns: tuple[str, ...], form: Format) -> None:
    with (
        database(workspace) as (_, connection),
        connection.transaction(),
        # A cursor on the server: the rows never have to fit in memory.
        connection.cursor("export", row_factory=dict_row) as cursor,
    ):
        write(cursor.execute(_QUERIES[query]), columns, form)


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


def csv_cell(value: Any) -> str:
    """A value as a cell that no spreadsheet takes for a formula: such a text gets a leading quote."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else orjson.dumps(value, default=str, option=orjson.OPT_UTC_Z).decode()
    text = text.strip('"') if not isinstance(value, str | dict | list) else text
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r", "\n")) else text
