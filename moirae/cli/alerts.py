"""`moirae alerts`: list, inspect and annotate alerts."""

import getpass
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from psycopg import Connection
from psycopg.rows import dict_row

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
    fetch_limited,
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
_VERDICT_DESCRIPTIONS = {
    "kept": "kept: the rule's `where` is true",
    "held back": "held back: the rule's `where` is false",
    "no history": "no history: the rule's `where` has no answer to use",
}

AlertArgument = Annotated[
    str, typer.Argument(metavar="ALERT", help="Alert or event ID, or a unique prefix of it.")
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
    values = {
        "rule": rule,
        "states": state,
        "id": None,
        "everything": include_all or bool(state),
        "limit": limit,
    }
    with open_workspace(workspace) as (_, connection):
        alerts, omitted = fetch_limited(connection, sql.load("alerts")["alerts"], values)
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
    from moirae.alerts import list_notes

    with open_workspace(workspace) as (_, connection):
        alert = _find_alert(connection, alert_id)
        notes = list_notes(connection, [alert["id"]])
    if output is OutputFormat.JSON:
        print_json({**alert, "notes": notes})
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
            alert["id"],
            kind=kind,
            text=text,
            author=author or getpass.getuser(),
            tag=tag,
        )
    print(f"added {kind} to {alert['rule']} of {format_time(alert['starts_at'])}")


def _find_alert(connection: Connection[Any], prefix: str) -> dict[str, Any]:
    """The alert whose ID or event ID starts with `prefix`. Raises `UsageError`."""
    # Wildcards of LIKE are not part of any ID.
    pattern = prefix.lower().replace("%", "").replace("_", "")
    alerts: list[dict[str, Any]] = []
    if prefix:
        alerts = _fetch_by_prefix(connection, pattern)
    if not alerts:
        raise UsageError(f"no alert {prefix!r}: `moirae alerts list --all` shows all IDs")
    if len(alerts) > 1:
        raise UsageError(
            f"{prefix!r} is ambiguous: this prefix matches several alerts; add more characters"
        )
    return alerts[0]


def _fetch_by_prefix(connection: Connection[Any], prefix: str) -> list[dict[str, Any]]:
    """At most two alerts, which is enough to know that the prefix is ambiguous."""
    values = {"rule": None, "states": None, "id": prefix, "everything": True, "limit": 2}
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(sql.load("alerts")["alerts"], values).fetchall()


def _format_row(alert: dict[str, Any]) -> tuple[Any, ...]:
    return (
        alert["starts_at"],
        _format_duration(alert),
        alert["state"],
        alert["labels"].get("severity"),
        alert["rule"],
        alert["annotations"].get("summary") or alert["key"],
        alert["acknowledged_by"] or "",
        alert["id"],
    )


def _list_properties(
    alert: dict[str, Any], notes: list[dict[str, Any]]
) -> Iterator[tuple[str, Any]]:
    description = _STATE_DESCRIPTIONS[alert["state"]]
    if alert["past"]:
        description = _HISTORICAL_DESCRIPTION
    yield "alert", alert["labels"].get("alertname")
    yield "state", f"{alert['state']}: {description}"
    yield from alert["annotations"].items()
    if alert["verdict"]:
        yield "history", _VERDICT_DESCRIPTIONS[alert["verdict"]]
    yield "key", alert["key"]
    yield "labels", alert["labels"]
    yield "started", alert["starts_at"]
    yield "fired", alert["fired_at"]
    yield "last event", alert["last_at"]
    yield "ended", alert["ends_at"]
    yield "duration", _format_duration(alert)
    yield "events", alert["events"]
    yield "rule", f"{alert['rule']} (version {alert['version']})"
    yield "first event", alert["eid"]
    yield "id", alert["id"]
    for annotation in notes:
        yield f"{annotation['kind']} by {annotation['author']}", _format_note(annotation)


def _format_note(annotation: dict[str, Any]) -> str:
    tag = f" [{annotation['tag']}]" if annotation["tag"] else ""
    return f"{annotation['text']}{tag} ({format_time(annotation['at'])})"


def _format_duration(alert: dict[str, Any]) -> str:
    """From the start to the end, or to the last event of an alert that has not ended."""
    span: timedelta = (alert["ends_at"] or alert["last_at"]) - alert["starts_at"]
    text = format_duration(timedelta(seconds=round(span.total_seconds())))
    return text if alert["ends_at"] else f"{text} so far"
