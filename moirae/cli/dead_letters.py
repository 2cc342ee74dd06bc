"""`moirae dead-letters`: list and retry records that were not archived."""

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    LimitOption,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    check_choices,
    escape_control,
    print_json,
    print_omitted_count,
    print_table,
)
from moirae.cli.pages import collect_rows, make_query
from moirae.cli.remote import RemoteTyper, open_services
from moirae.errors import NotFound, UsageError

if TYPE_CHECKING:
    from moirae.services import Workspace
    from moirae.services.operations.archive import RetryProgress

app = RemoteTyper(help="List and retry records that were not archived.", no_args_is_help=True)

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
    from moirae.services.operations.archive import DeadLetterQuery, list_dead_letters

    query = make_query(DeadLetterQuery, stream=stream, reason=reason)
    with open_services(workspace) as services:
        letters, omitted = collect_rows(services, list_dead_letters, query, "dead_letters", limit)
    rows = [dict(vars(letter)) for letter in letters]
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
        int,
        typer.Option("--limit", min=1, max=100_000, help="Maximum number of records to retry."),
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
    from moirae.services.operations.archive import RetryBody, retry_dead_letters

    body = make_query(
        RetryBody, ids=ids or None, stream=stream, reason=reason, all=select_all, limit=limit
    )
    with open_services(workspace) as services:
        retry = retry_dead_letters(services, body)
        if retry.missing:
            _report_missing(retry.missing, fatal=not retry.marked)
        progress = _await_retries(services, retry.marked)
    pending, rejected = progress.pending, progress.rejected
    marked = retry.marked
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


def _await_retries(services: "Workspace", ids: Sequence[str]) -> "RetryProgress":
    """Wait until a running workspace has retried the records of its streams, or the timeout."""
    from moirae.services.operations.archive import RetryIds, show_retry_progress

    body = RetryIds(ids=list(ids))
    progress = show_retry_progress(services, body)
    is_live = progress.live
    deadline = time.monotonic() + _RETRY_TIMEOUT
    while is_live and progress.waiting and time.monotonic() < deadline:
        time.sleep(_POLL_INTERVAL)
        progress = show_retry_progress(services, body)
    return progress


def _report_missing(ids: Sequence[str], *, fatal: bool) -> None:
    """Report IDs that no dead letter has; as a `UsageError` where no other was given."""
    message = f"no dead letter {', '.join(ids[:_SHOWN_IDS])}: see `moirae dead-letters list`"
    if fatal:
        raise NotFound(message)
    print(message, file=sys.stderr)


def _format_row(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("id", "stream", "source", "line", "reason", "detail")
    return (*map(row.get, names), escape_control(row["raw"])[:_SHOWN_CHARACTERS])
