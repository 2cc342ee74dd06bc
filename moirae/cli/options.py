"""Options and arguments that several commands take, access to the workspace, and printed output."""

import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import is_dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, overload

import orjson
import typer
from rich import filesize
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import sql
from moirae.config import Settings, load_settings_from_environment
from moirae.errors import Problem, UsageError
from moirae.runtime import connect_database, replace_unencodable, write_json

_MAX_LIMIT = 100_000  # rows of a list
_MAX_CELL = 1000  # characters of a cell of a list; JSON, and the command for one row, have all
_FILE_WIDTH = 200  # characters of a table line when standard output is not a terminal


class OutputFormat(StrEnum):
    """Formats of printed data."""

    TABLE = "table"
    JSON = "json"


WorkspaceOption = Annotated[
    Path, typer.Option("--workspace", metavar="FILE", help="Workspace file.")
]
OutputOption = Annotated[OutputFormat, typer.Option("--output", "-o", help="Output format.")]
LimitOption = Annotated[
    int,
    typer.Option("--limit", min=1, max=_MAX_LIMIT, help="Maximum number of rows to show."),
]
RuleOption = Annotated[
    str | None,
    typer.Option("--rule", help="Restrict to this rule, named with or without its group."),
]
AuthorOption = Annotated[
    str | None, typer.Option("--author", help="Name of the author. Default: your login name.")
]
EventArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Event, alert or recall ID, or a unique prefix of it.")
]
DEFAULT_WORKSPACE = Path("moirae.yaml")

_NOT_A_CHOICE = re.compile(r" is not one of (.+)\.$")
# Beginnings of pydantic's messages, and what replaces them.
_INVALID_VALUES = {
    "Input should be a valid integer": "must be an integer",
    "Input should be a valid number": "must be a number",
    "Input should be greater than or equal to": "must be at least",
    "Input should be less than or equal to": "must be at most",
}

# Also those that change the direction of the text that follows.
_CONTROL_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@contextmanager
def open_workspace(workspace: Path) -> Iterator[tuple[Settings, sql.Connection]]:
    """The settings of a workspace and a connection to its database.

    An embedded database that is not running is started, and stopped again afterwards.
    """
    settings = load_settings_from_environment(workspace)
    with connect_database(settings, "cli") as connection:
        yield settings, connection


def expand_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each dataclass parameter of a command by its fields, as options."""
    signatures: dict[str, inspect.Signature] = {}  # of the dataclasses, by parameter
    groups: dict[str, type] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        options = [parameter]
        group = parameter.annotation
        if isinstance(group, type) and is_dataclass(group):
            groups[parameter.name] = group
            signatures[parameter.name] = inspect.signature(group)
            options = list(signatures[parameter.name].parameters.values())
        parameters.extend(option.replace(kind=option.KEYWORD_ONLY) for option in options)

    @wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            fields = {option: values.pop(option) for option in signatures[name].parameters}
            values[name] = group(**fields)
        command(**values)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def describe_invalid_value(message: str) -> str:
    """A message of pydantic about an option's value, as `must be table or json`."""
    message = message.removeprefix("Value error, ")
    choices = _NOT_A_CHOICE.search(message)
    if choices is not None:
        *first, last = choices[1].replace("'", "").split(", ")
        return f"must be {', '.join(first)} or {last}" if first else f"must be {last}"
    for start, replacement in _INVALID_VALUES.items():
        if message.startswith(start):
            return replacement + message.removeprefix(start).partition(",")[0]
    return message


def check_choices(kind: str, values: Iterable[str], choices: Collection[str]) -> None:
    """Raise `UsageError` for the first value that is not among the choices."""
    for value in values:
        if value not in choices:
            raise UsageError(f"unknown {kind} {value!r}: must be one of {', '.join(choices)}")


def parse_assignments(option: str, texts: Iterable[str], example: str) -> dict[str, str]:
    """The values of texts NAME=VALUE by name. Raises `UsageError`, with the example."""
    values: dict[str, str] = {}
    for text in texts:
        name, separator, value = text.partition("=")
        if not name or not separator:
            raise UsageError(f"{option}: {text!r} is not NAME=VALUE, such as {example}")
        values[name] = value
    return values


def print_omitted_count(omitted: int, shown: int, output: OutputFormat) -> None:
    """Report the rows that a limit omits: below a table on a terminal, else on standard error."""
    if not omitted:
        return
    file = sys.stderr
    if output is OutputFormat.TABLE and sys.stdout.isatty():
        file = sys.stdout
    limit = min(shown + omitted, _MAX_LIMIT)
    print(f"… and {omitted:,} more (use --limit {limit})", file=file)


def print_warnings(warnings: Iterable[Problem | str]) -> None:
    """Print warnings about files, each with its position, on standard error."""
    for warning in warnings:
        for line in str(warning).splitlines():
            print(escape_control(line), file=sys.stderr)


def print_yaml(details: Any) -> None:
    """Print nested data as YAML, in the order of its keys."""
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe")
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.dump(orjson.loads(orjson.dumps(details)), sys.stdout)


def print_json(value: Any) -> None:
    """Print a JSON value. Times are in UTC and end in Z; durations are in seconds."""
    option = orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z
    write_json(orjson.dumps(value, default=_json_default, option=option))


def print_json_line(value: Any) -> None:
    """Print a JSON value in one line."""
    write_json(orjson.dumps(value, default=_json_default, option=orjson.OPT_UTC_Z))


def _json_default(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)


def make_console(file_width: int = _FILE_WIDTH) -> Console:
    """A console on standard output, as wide as the terminal or else `file_width` characters."""
    if sys.stdout.isatty():
        return Console()
    return Console(width=file_width)


def print_table(columns: Sequence[str], rows: Iterable[Iterable[Any]], empty_message: str) -> None:
    """Print a table, or `empty_message` where there are no rows."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(format_cell(value, _MAX_CELL) for value in row))
    if table.row_count:
        make_console().print(table)
    else:
        make_console().print(empty_message)


def print_properties(properties: Iterable[tuple[str, Any]]) -> None:
    """Print names and values in two columns without a heading."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for _ in range(2):
        table.add_column(overflow="fold")
    for name, value in properties:
        table.add_row(format_cell(name), format_cell(value))
    make_console().print(table)


def format_cell(value: Any, length: int | None = None) -> str:
    """A value as text of a table cell. Control characters and markup in it have no effect.

    `length`: characters after which it is cut; None: it is not.
    """
    if value is None:
        return replace_unencodable("–", sys.stdout)
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, dict):
        value = ", ".join(f"{name}={item}" for name, item in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    text = str(value)
    if length is not None:
        text = cut_text(text, length)
    return escape(replace_unencodable(escape_control(text), sys.stdout))


def cut_text(text: str, length: int) -> str:
    """A text, or its beginning and how long it is if it has more than `length` characters."""
    return text if len(text) <= length else f"{text[:length]}… ({len(text):,} characters)"


def escape_control(text: str) -> str:
    r"""The text with each control character written as `\xNN` or `\uNNNN`."""
    return _CONTROL_CHARACTERS.sub(_format_escape, text)


def _format_escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def format_time(moment: datetime) -> str:
    """A time in UTC, in whole seconds where it has no fraction, else in microseconds."""
    utc = moment.astimezone(UTC)
    return utc.replace(tzinfo=None).isoformat(sep=" ") + "Z"


@overload
def to_seconds(moment: datetime) -> datetime: ...


@overload
def to_seconds(moment: datetime | None) -> datetime | None: ...


def to_seconds(moment: datetime | None) -> datetime | None:
    """A time of the clock for tables: its fractions say nothing to a reader."""
    return None if moment is None else moment.replace(microsecond=0)


def get_first_line(text: str | None) -> str:
    """The first line of an error or a reason, as a cell of a table shows it."""
    return (text or "").partition("\n")[0]


def format_size(byte_count: int) -> str:
    """A number of bytes with a decimal unit: `512 B`, `1.5 MB`."""
    if byte_count < 1000:
        return f"{byte_count} B"
    return filesize.decimal(byte_count)


def format_count(count: int, noun: str) -> str:
    """A number with its noun: `1 chunk`, `2,000 chunks`."""
    return f"1 {noun}" if count == 1 else f"{count:,} {noun}s"
