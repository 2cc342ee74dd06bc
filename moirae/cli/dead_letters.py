"""`moirae dead-letters`: list and retry records that were not archived."""

import base64
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer

import sql
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    LimitOption,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    check_choices,
    escape_control,
    open_workspace,
    print_json,
    print_omitted_count,
    print_table,
)
from moirae.config import Settings
from moirae.errors import UsageError

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
        gateway = sql.DeadLetterGateway(connection)
        letters = gateway.list_newest(stream, reason, limit)
        omitted = 0
        if len(letters) >= limit:
            omitted = max(gateway.count(stream, reason) - len(letters), 0)
    rows = list(map(_to_json, letters))
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
        gateway = sql.DeadLetterGateway(connection)
        marked = gateway.mark_for_retry(letters, stream=stream, reason=reason, limit=limit)
        missing = [
            text for text, letter in zip(ids or (), letters, strict=True) if letter not in marked
        ]
        if missing:
            _report_missing(missing, fatal=not marked)
        _await_retries(connection, list(settings.streams))
        pending = gateway.count_marked()
        rejected = gateway.count_unmarked(marked)
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


def _await_retries(connection: sql.Connection, streams: list[str]) -> None:
    """Wait until a running workspace has retried the records of its streams, or the timeout."""
    from moirae.inspect import is_live_available

    if not is_live_available(connection):
        return
    gateway = sql.DeadLetterGateway(connection)
    deadline = time.monotonic() + _RETRY_TIMEOUT
    while gateway.count_marked(streams) and time.monotonic() < deadline:
        time.sleep(_POLL_INTERVAL)


def _report_missing(ids: Sequence[str], *, fatal: bool) -> None:
    """Report IDs that no dead letter has; as a `UsageError` where no other was given."""
    message = f"no dead letter {', '.join(ids[:_SHOWN_IDS])}: see `moirae dead-letters list`"
    if fatal:
        raise UsageError(message)
    print(message, file=sys.stderr)


def _check_stream(settings: Settings, connection: sql.Connection, name: str | None) -> None:
    """Raise `UsageError` for a stream that is not declared and of which nothing was read."""
    if name is None or name in settings.streams:
        return
    if name not in {row.name for row in sql.StreamGateway(connection).list_all()}:
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


def _to_json(letter: sql.DeadLetterRow) -> dict[str, Any]:
    row = asdict(letter)
    row["raw"] = letter.raw.decode("utf-8", "backslashreplace")
    row["raw_base64"] = base64.b64encode(letter.raw).decode()
    return row


def _format_row(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("id", "stream", "source", "line", "reason", "detail")
    return (*map(row.get, names), escape_control(row["raw"])[:_SHOWN_CHARACTERS])
