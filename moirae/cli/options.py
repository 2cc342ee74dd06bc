"""What the commands share: the workspace option, and how data is printed."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from moirae.config import Settings, load_settings_from_environment
from moirae.errors import Problem

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.sql import SQL


_MOST_ROWS = 100_000  # that a list may show


class OutputFormat(StrEnum):
    """Forms of printed data."""

    TABLE = "table"
    JSON = "json"


WorkspaceOption = Annotated[
    Path, typer.Option("--workspace", metavar="FILE", help="The workspace file.")
]
OutputOption = Annotated[OutputFormat, typer.Option("--output", "-o", help="How to print.")]
LimitOption = Annotated[
    int, typer.Option("--limit", min=1, max=_MOST_ROWS, help="Most rows to show.")
]
DEFAULT_WORKSPACE = Path("moirae.yaml")

_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@contextmanager
def open_workspace(workspace: Path) -> Iterator[tuple[Settings, "Connection[Any]"]]:
    """The workspace's settings and a connection to its database, started if need be."""
    from moirae.runtime import connect_database

    settings = load_settings_from_environment(workspace)
    with connect_database(settings, "cli") as connection:
        yield settings, connection


def limited(
    connection: "Connection[Any]", query: "SQL", values: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], int]:
    """The rows of a query that ends in `LIMIT %(limit)s`, and how many more there are than the limit lets through."""
    from psycopg.rows import dict_row
    from psycopg.sql import SQL

    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(query, values).fetchall()
    if len(rows) < values["limit"]:
        return rows, 0
    count = SQL("SELECT count(*) FROM ({}) AS listed").format(query)
    total = connection.execute(count, {**values, "limit": None}).fetchone()
    assert total is not None
    return rows, max(total[0] - len(rows), 0)


def print_left_out(left_out: int, shown: int, output: OutputFormat) -> None:
    """Where a list was cut, say how many rows are left out: below a table on a terminal, else on standard error."""
    if not left_out:
        return
    below = output is OutputFormat.TABLE and sys.stdout.isatty()
    words = f"… and {left_out:,} more (use --limit {min(shown + left_out, _MOST_ROWS)})"
    print(words, file=sys.stdout if below else sys.stderr)


def print_warnings(warnings: Iterable[Problem]) -> None:
    """What is not wrong with files, each with its place, on standard error."""
    for warning in warnings:
        print(escape_control(str(warning)), file=sys.stderr)


def print_json(value: Any) -> None:
    """One JSON value; times in UTC with a Z."""
    text = orjson.dumps(value, default=_json_default, option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z)
    sys.stdout.write(text.decode() + "\n")


def _json_default(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


def print_table(columns: Sequence[str], rows: Iterable[Iterable[Any]], empty_message: str) -> None:
    """A table for people; `empty` where there is no row."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(format_cell(value) for value in row))
    console = Console(width=None if sys.stdout.isatty() else 200)
    if table.row_count:
        console.print(table)
    else:
        console.print(empty_message)


def format_cell(value: Any) -> str:
    """A value as safe text: nothing in the data can drive the terminal."""
    if value is None:
        return "–"
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, dict):
        value = ", ".join(f"{name}={item}" for name, item in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return escape(escape_control(str(value)))


def escape_control(text: str) -> str:
    """Control characters written out."""
    return _CONTROL_CHARACTERS.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


def format_time(moment: datetime) -> str:
    """A time in UTC, to the second where that is exact."""
    utc = moment.astimezone(UTC)
    form = "%Y-%m-%d %H:%M:%S" if utc.microsecond == 0 else "%Y-%m-%d %H:%M:%S.%f"
    return utc.strftime(form) + "Z"


def format_size(byte_count: int) -> str:
    """Bytes in words."""
    value = float(byte_count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"
