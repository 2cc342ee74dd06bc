"""`moirae alerts`: list, inspect and annotate alerts."""

import getpass
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import sql
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    AuthorOption,
    LimitOption,
    OutputFormat,
    OutputOption,
    RuleOption,
    WorkspaceOption,
    check_choices,
    count_omitted,
    format_time,
    open_workspace,
    print_json,
    print_omitted_count,
    print_properties,
    print_table,
)
from moirae.config import format_duration
from moirae.errors import UsageError

if TYPE_CHECKING:
    from moirae.alerts import NoteKind

app = typer.Typer(help="List, inspect and annotate alerts.", no_args_is_help=True)

_STATES = ("pending", "firing", "resolved", "provisional", "withdrawn")
_STATE_DESCRIPTIONS = {
    "provisional": "detected but not settled: its start may still change",
    "pending": "events have not lasted as long as the rule's `for`",
    "firing": "events continue",
    "resolved": "events have stopped",
    "withdrawn": "detected, but not confirmed when its events were settled",
}
_HISTORICAL_DESCRIPTION = "ended before the rule was applied; found in history"
_HISTORY_DESCRIPTIONS = {
    "waiting": "the rule's `where` is not known yet",
    "kept": "the rule's `where` is true",
    "withdrawn": "the rule's `where` is false",
    "no_history": "the rule's `where` has no answer to use",
}

AlertArgument = Annotated[
    str, typer.Argument(metavar="ID", help="Alert or event ID, or a unique prefix of it.")
]
NoteTextArgument = Annotated[str, typer.Argument(help="Text of the note.")]
AlertStateOption = Annotated[
    list[str] | None,
    typer.Option("--state", help=f"Show only alerts in this state: {', '.join(_STATES)}."),
]


@app.command("list")
def list_(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    rule: RuleOption = None,
    state: AlertStateOption = None,
    include_all: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Include withdrawn alerts, pending alerts that never fired, and alerts found in "
            "history.",
        ),
    ] = False,
    limit: LimitOption = 50,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List the newest alerts."""
    check_choices("state", state or (), _STATES)
    include_all = include_all or bool(state)
    with open_workspace(workspace) as (_, connection):
        gateway = sql.AlertGateway(connection)
        alerts = gateway.list_newest(rule=rule, states=state, include_all=include_all, limit=limit)
        count = partial(gateway.count_newest, rule=rule, states=state, include_all=include_all)
        omitted = count_omitted(alerts, limit, count)
    if output is OutputFormat.JSON:
        print_json(alerts)
    else:
        columns = [
            "starts",
            "duration",
            "state",
            "severity",
            "rule",
            "summary",
            "acknowledged by",
            "id",
        ]
        print_table(columns, map(_format_row, alerts), "no alerts")
    print_omitted_count(omitted, len(alerts), output)


@app.command()
def show(
    alert_id: AlertArgument,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show an alert with its labels, times and notes."""
    with open_workspace(workspace) as (_, connection):
        alert = _find_alert(connection, alert_id)
        notes = sql.AlertNoteGateway(connection).list_by_alerts([alert.id])
    if output is OutputFormat.JSON:
        print_json({**asdict(alert), "notes": notes})
    else:
        print_properties(_list_properties(alert, notes))


@app.command()
def ack(
    alert_id: AlertArgument,
    text: NoteTextArgument = "",
    author: AuthorOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Acknowledge an alert."""
    _add_note(workspace, alert_id, "ack", text or "acknowledged", author=author)


@app.command()
def note(
    alert_id: AlertArgument,
    text: NoteTextArgument,
    author: AuthorOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Add a note to an alert."""
    _add_note(workspace, alert_id, "note", text, author=author)


@app.command()
def resolve(
    alert_id: AlertArgument,
    text: NoteTextArgument,
    author: AuthorOption = None,
    tag: Annotated[
        str | None,
        typer.Option("--tag", help="Kind of incident in one word, for evaluation and search."),
    ] = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Record the resolution of an alert. Its state is unaffected."""
    _add_note(workspace, alert_id, "resolution", text, author=author, tag=tag)


def _add_note(
    workspace: Path,
    alert_id: str,
    kind: "NoteKind",
    text: str,
    *,
    author: str | None,
    tag: str | None = None,
) -> None:
    from moirae.alerts import add_note

    with open_workspace(workspace) as (_, connection):
        alert = _find_alert(connection, alert_id)
        add_note(
            connection,
            alert.id,
            kind=kind,
            text=text,
            author=author or getpass.getuser(),
            tag=tag,
        )
    print(f"added {kind} to {alert.rule} of {format_time(alert.starts_at)}")


def _find_alert(connection: sql.Connection, prefix: str) -> sql.AlertRow:
    """The alert whose ID or event ID starts with `prefix`. Raises `UsageError`."""
    # Wildcards of LIKE are not part of any ID.
    pattern = prefix.lower().replace("%", "").replace("_", "")
    alerts: list[sql.AlertRow] = []
    if prefix:
        # Two alerts are enough to know that the prefix is ambiguous.
        alerts = sql.AlertGateway(connection).list_by_prefix(pattern, limit=2)
    if not alerts:
        raise UsageError(f"no alert {prefix!r}: `moirae alerts list --all` shows all IDs")
    if len(alerts) > 1:
        raise UsageError(
            f"ambiguous: {prefix!a} matches several alerts; give more characters of the ID"
        )
    return alerts[0]


def _format_row(alert: sql.AlertRow) -> tuple[Any, ...]:
    return (
        alert.starts_at,
        _format_duration(alert),
        alert.state,
        alert.labels.get("severity"),
        alert.rule,
        alert.annotations.get("summary") or alert.key,
        alert.acknowledged_by or "",
        alert.id,
    )


def _list_properties(
    alert: sql.AlertRow, notes: Sequence[sql.AlertNoteRow]
) -> Iterator[tuple[str, Any]]:
    description = _STATE_DESCRIPTIONS[alert.state]
    if alert.past:
        description = _HISTORICAL_DESCRIPTION
    yield "alert", alert.labels.get("alertname")
    yield "state", f"{alert.state}: {description}"
    yield from alert.annotations.items()
    if alert.history:
        finality = "" if alert.history_final else " so far"
        yield "history", f"{alert.history}: {_HISTORY_DESCRIPTIONS[alert.history]}{finality}"
    yield "key", alert.key
    yield "labels", alert.labels
    yield "started", alert.starts_at
    yield "fired", alert.fired_at
    yield "last event", alert.last_at
    yield "ended", alert.ends_at
    yield "duration", _format_duration(alert)
    yield "events", alert.events
    yield "rule", f"{alert.rule} (version {alert.version})"
    yield "first event", alert.eid
    yield "id", alert.id
    for note in notes:
        yield f"{note.kind} by {note.author}", _format_note(note)


def _format_note(note: sql.AlertNoteRow) -> str:
    tag = f" [{note.tag}]" if note.tag else ""
    return f"{note.text}{tag} ({format_time(note.at)})"


def _format_duration(alert: sql.AlertRow) -> str:
    """From the start to the end, or to the last event of an alert that has not ended."""
    span: timedelta = (alert.ends_at or alert.last_at) - alert.starts_at
    text = format_duration(timedelta(seconds=round(span.total_seconds())))
    return text if alert.ends_at else f"{text} so far"
