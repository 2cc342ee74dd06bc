"""`moirae set-aside`: list what breaks its reader, and have it read again."""

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    check_choices,
    get_first_line,
    print_json,
    print_table,
    to_seconds,
)
from moirae.cli.pages import make_query
from moirae.cli.remote import RemoteTyper, open_services
from moirae.errors import UsageError

if TYPE_CHECKING:
    from moirae.services import Workspace
    from moirae.services.operations.set_aside import (
        RequestedSubject,
        SetAsideOutcome,
        SetAsideProgress,
    )

app = RemoteTyper(
    help="List and read again files, streams, relations and topics that could not be read.",
    no_args_is_help=True,
)

_RETRY_TIMEOUT = 60.0  # seconds to wait for a running workspace
_POLL_INTERVAL = 0.2  # seconds
_KINDS = ("file", "stream", "relation", "topic")
_COLUMNS = ("kind", "stream", "name", "state", "tries", "first failed", "last failed", "reason")


@app.command("list")
def list_(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, output: OutputOption = OutputFormat.TABLE
) -> None:
    """List what could not be read at the last try, with the reason; also rules in quarantine."""
    from moirae.services.operations.set_aside import list_subjects

    with open_services(workspace) as services:
        subjects = list_subjects(services)
    if output is OutputFormat.JSON:
        print_json(subjects)
    else:
        print_table(_COLUMNS, map(_format_subject, subjects), "nothing is set aside")


@app.command()
def retry(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME…", help="Names, as `list` shows them."),
    ] = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    kind: Annotated[
        str | None, typer.Option("--kind", help=f"Select this kind: {', '.join(_KINDS)}.")
    ] = None,
    stream: Annotated[
        str | None, typer.Option("--stream", help="Select files of this stream.")
    ] = None,
    select_all: Annotated[bool, typer.Option("--all", help="Select everything.")] = False,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Read again what was set aside. Exit code 1 if any of it fails again.

    Rules in quarantine are resumed by `moirae rules resume`.
    """
    if kind is not None:
        check_choices("kind", [kind], _KINDS)
    if not (names or kind or stream or select_all):
        raise UsageError("nothing selected: give names, --kind, --stream or --all")
    from moirae.services.operations.set_aside import SetAsideBody, retry_subjects

    body = make_query(SetAsideBody, names=names or None, kind=kind, stream=stream, all=select_all)
    with open_services(workspace) as services:
        progress = _await_outcomes(services, retry_subjects(services, body))
    if output is OutputFormat.JSON:
        print_json([dict(vars(outcome)) for outcome in progress.outcomes])
    else:
        for outcome in progress.outcomes:
            print(_describe(outcome))
        if not progress.outcomes:
            print("nothing is set aside")
    has_failed = any(outcome.state == "failed" for outcome in progress.outcomes)
    raise typer.Exit(1 if has_failed else 0)


def _await_outcomes(
    services: "Workspace", requested: "Sequence[RequestedSubject]"
) -> "SetAsideProgress":
    """Wait until a running workspace has carried out the requests, or the timeout."""
    from moirae.services.operations.set_aside import SetAsideSubjects, show_retries

    subjects = [dict(vars(subject)) for subject in requested]
    body = make_query(SetAsideSubjects, subjects=subjects)
    progress = show_retries(services, body)
    is_live = progress.live
    deadline = time.monotonic() + _RETRY_TIMEOUT
    while is_live and _is_waiting(progress) and time.monotonic() < deadline:
        time.sleep(_POLL_INTERVAL)
        progress = show_retries(services, body)
    return progress


def _is_waiting(progress: "SetAsideProgress") -> bool:
    return any(outcome.state == "waiting" for outcome in progress.outcomes)


def _describe(outcome: "SetAsideOutcome") -> str:
    """One line: what became of a request."""
    from moirae.inspect import describe_subject

    subject = describe_subject(vars(outcome))
    if outcome.state == "waiting":
        return f"{subject}: queued, it is read while `moirae up` runs"
    if outcome.state == "failed":
        return f"{subject}: failed again: {outcome.reason}"
    if outcome.records is None:
        return f"{subject}: read"
    return f"{subject}: read, {describe_late_rows(outcome.records, outcome.late or 0)}"


def describe_late_rows(records: int, late: int) -> str:
    """How many records were read late, and what follows."""
    if not late:
        return f"{records:,} records"
    return f"{records:,} records, {late:,} rows of them late: they caused no alert"


def _format_subject(subject: Any) -> Iterable[Any]:
    state = "set aside" if subject["is_set_aside"] else "tried again"
    if subject["retry_requested"]:
        state = "retry requested"
    times = [to_seconds(subject[name]) for name in ("first_failed_at", "last_failed_at")]
    names = [subject["kind"], subject["stream"], subject["name"]]
    return [*names, state, subject["tries"], *times, get_first_line(subject["reason"])]
