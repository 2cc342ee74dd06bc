"""`moirae dead-letters`: list and retry records that were not archived."""

import base64
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from psycopg import Connection

import sql
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    LimitOption,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    check_choices,
    escape_control,
    fetch_limited,
    open_workspace,
    print_json,
    print_omitted_count,
    print_table,
)
from moirae.config import Settings
from moirae.errors import UsageError

if TYPE_CHECKING:
    from archiver.ingest import Catalog

app = typer.Typer(help="List and retry records that were not archived.", no_args_is_help=True)

_RETRY_TIMEOUT = 60.0  # seconds to wait for a running workspace
_POLL_INTERVAL = 0.2  # seconds
_REASONS = ("malformed", "quarantined", "conflict", "expired")
_SHOWN_CHARACTERS = 80  # of a record in a table
_SHOWN_IDS = 5  # of unknown dead letters in a message

StreamOption = Annotated[
    str | None, typer.Option("--stream", help="Select dead letters of this stream.")
]
ReasonOption = Annotated[
    str | None,
    typer.Option("--reason", help=f"Select dead letters with this reason: {', '.join(_REASONS)}."),
]


@app.command("list")
def list_(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    stream: StreamOption = None,
    reason: ReasonOption = None,
    limit: LimitOption = 50,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List dead letters with source, line, reason and record, newest first."""
    if reason is not None:
        check_choices("reason", [reason], _REASONS)
    with open_workspace(workspace) as (settings, connection):
        _check_stream(settings, connection, stream)
        values = {"stream": stream, "reason": reason, "limit": limit}
        rows, omitted = fetch_limited(connection, sql.load("catalog")["dead_letters"], values)
    for row in rows:
        row["raw_base64"] = base64.b64encode(row["raw"]).decode()
        row["raw"] = row["raw"].decode("utf-8", "backslashreplace")
    if output is OutputFormat.JSON:
        print_json(rows)
    else:
        columns = ("id", "stream", "source", "line", "reason", "detail", "raw")
        print_table(columns, map(_format_row, rows), "no dead letters")
    print_omitted_count(omitted, len(rows), output)


@app.command()
def retry(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID…", help="IDs of dead letters, as `list` shows them."),
    ] = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    stream: StreamOption = None,
    reason: ReasonOption = None,
    select_all: Annotated[bool, typer.Option("--all", help="Select all dead letters.")] = False,
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="Maximum number of records to retry.")
    ] = 100_000,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Retry dead letters after fixing their cause. Exit code 1 if any is rejected again."""
    from archiver.ingest import Catalog

    if reason is not None:
        check_choices("reason", [reason], _REASONS)
    has_filter = stream is not None or reason is not None or select_all
    if not ids and not has_filter:
        raise UsageError("nothing selected: give IDs, --stream, --reason or --all")
    if ids and has_filter:
        raise UsageError("IDs cannot be combined with --stream, --reason or --all")
    letters = list(map(_parse_id, ids or ()))
    with open_workspace(workspace) as (settings, connection):
        _check_stream(settings, connection, stream)
        catalog = Catalog(connection)
        marked = catalog.mark_for_retry(letters, stream, reason, limit)
        missing = [
            text for text, letter in zip(ids or (), letters, strict=True) if letter not in marked
        ]
        if missing:
            _report_missing(missing, fatal=not marked)
        _await_retries(connection, catalog, list(settings.streams))
        pending = catalog.count_pending_retries()
        rejected = catalog.count_dead_letters(marked)
    if output is OutputFormat.JSON:
        print_json({"requested": len(marked), "pending": pending, "rejected": rejected})
    elif pending:
        print(
            f"{pending:,} records are queued: they are retried while `moirae up` runs and "
            "moirae.yaml declares their streams"
        )
    else:
        print(f"{len(marked) - rejected:,} of {len(marked):,} records accepted")
        if rejected:
            print(f"{rejected:,} records rejected again: see `moirae dead-letters list`")
    raise typer.Exit(1 if rejected else 0)


def _await_retries(connection: Connection[Any], catalog: "Catalog", streams: list[str]) -> None:
    """Wait until a running workspace has retried the records of its streams, or the timeout."""
    from moirae.inspect import is_live_available

    if not is_live_available(connection):
        return
    deadline = time.monotonic() + _RETRY_TIMEOUT
    while catalog.count_pending_retries(streams) and time.monotonic() < deadline:
        time.sleep(_POLL_INTERVAL)


def _report_missing(ids: Sequence[str], *, fatal: bool) -> None:
    """Report IDs that no dead letter has; as a `UsageError` where no other was given."""
    message = f"no dead letter {', '.join(ids[:_SHOWN_IDS])}: see `moirae dead-letters list`"
    if fatal:
        raise UsageError(message)
    print(message, file=sys.stderr)


def _check_stream(settings: Settings, connection: Connection[Any], name: str | None) -> None:
    """Raise `UsageError` for a stream that is not declared and of which nothing was read."""
    from archiver.ingest import Catalog

    if name is None or name in settings.streams:
        return
    if name not in Catalog(connection).stream_progress():
        streams = ", ".join(settings.streams)
        raise UsageError(f"no stream {escape_control(name)!r}: declared are {streams}")


def _parse_id(text: str) -> tuple[int, int]:
    """`17:3` -> source unit 17, line 3."""
    unit, _, line = text.partition(":")
    digits = unit + line
    is_valid = unit and line and digits.isascii() and digits.isdigit() and len(text) < 20
    if not is_valid:
        raise UsageError(f"{text[:80]!r} is not a valid dead letter ID, such as 17:3")
    return int(unit), int(line)


def _format_row(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("id", "stream", "source", "line", "reason", "detail")
    return (*map(row.get, names), escape_control(row["raw"])[:_SHOWN_CHARACTERS])
