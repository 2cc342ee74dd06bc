"""`alerts`: what stands, what stood, and what people did about it."""

import getpass
from datetime import timedelta
from typing import Annotated, Any

import typer
from psycopg import Connection
from psycopg.rows import dict_row

import sql
from moirae.alerts import NoteKind, add_note, list_notes
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    LimitOption,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    format_time,
    limited,
    open_workspace,
    print_json,
    print_left_out,
    print_table,
)
from moirae.config import format_duration
from moirae.errors import UsageError

app = typer.Typer(help="What stands, what stood, and what was done about it.", no_args_is_help=True)
_QUERIES = sql.load("alerts")

_STATES = ("pending", "firing", "resolved", "provisional", "withdrawn")
_STATE_DESCRIPTIONS = {
    "provisional": "detected; not settled yet, so its start may still change",
    "pending": "events have begun, not yet for as long as the rule asks",
    "firing": "going on",
    "resolved": "over",
    "withdrawn": "was detected, but settling did not confirm it",
}

_PAST_DESCRIPTION = "over before the rule was there; found in its history"

_VERDICT_DESCRIPTIONS = {
    "kept": "kept: it is outside what was normal",
    "held back": "held back: the rule's `where` is false for it",
    "no history": "no history to judge it by",
}

AlertArgument = Annotated[
    str, typer.Argument(metavar="ALERT", help="The id of the alert or its event, or how it begins.")
]
AuthorOption = Annotated[
    str | None, typer.Option("--author", help="Who; your login name if not given.")
]
NoteTextArgument = Annotated[str, typer.Argument(help="What.")]
AlertStateOption = Annotated[
    list[str] | None, typer.Option("--state", help=f"Only in this state: {', '.join(_STATES)}.")
]
RuleOption = Annotated[
    str | None, typer.Option("--rule", help="Only of this rule, with or without its group.")
]


@app.command("list")
def list_(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    rule: RuleOption = None,
    state: AlertStateOption = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Also withdrawn, pending that never fired, and what was over before the rule was there.",
        ),
    ] = False,
    limit: LimitOption = 50,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """The newest alerts."""
    unknown = [s for s in state or () if s not in _STATES]
    if unknown:
        raise UsageError(f"no state {unknown[0]!r}; there are {', '.join(_STATES)}")
    with open_workspace(workspace) as (_, connection):
        values = {
            "rule": rule,
            "states": state,
            "id": None,
            "everything": everything or bool(state),
            "limit": limit,
        }
        rows, left_out = limited(connection, _QUERIES["alerts"], values)
    if output is OutputFormat.JSON:
        print_json(rows)
        print_left_out(left_out, len(rows), output)
        return
    shown = [
        (
            row["starts_at"],
            _format_lasted(row),
            row["state"],
            row["labels"].get("severity"),
            row["rule"],
            _format_subject(row),
            row["acknowledged_by"] or "",
            row["id"],
        )
        for row in rows
    ]
    print_table(
        ["starts", "lasted", "state", "severity", "rule", "about", "acknowledged by", "id"],
        shown,
        "no alerts",
    )
    print_left_out(left_out, len(rows), output)


@app.command()
def show(
    number: AlertArgument,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """One alert: what, where, since when, what was done."""
    with open_workspace(workspace) as (_, connection):
        alert = _find_alert(connection, number)
        notes = list_notes(connection, [alert["id"]])
    if output is OutputFormat.JSON:
        print_json({**alert, "notes": notes})
        return
    lines: list[tuple[str, Any]] = [
        ("alert", alert["labels"].get("alertname")),
        (
            "state",
            f"{alert['state']}: {_PAST_DESCRIPTION if alert['past'] else _STATE_DESCRIPTIONS[alert['state']]}",
        ),
        *alert["annotations"].items(),
        *((("history", _VERDICT_DESCRIPTIONS[alert["verdict"]]),) if alert["verdict"] else ()),
        ("key", alert["key"]),
        ("labels", alert["labels"]),
        ("started", alert["starts_at"]),
        ("fired", alert["fired_at"]),
        ("last event", alert["last_at"]),
        ("ended", alert["ends_at"]),
        ("lasted", _format_lasted(alert)),
        ("events", alert["events"]),
        ("rule", f"{alert['rule']} (version {alert['version']})"),
        ("first event", alert["eid"]),
        ("id", alert["id"]),
        *((f"{n['kind']} by {n['author']}", _format_note(n)) for n in notes),
    ]
    print_table(["", ""], lines, "")


@app.command()
def ack(
    number: AlertArgument,
    text: NoteTextArgument = "",
    author: AuthorOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Say that somebody looks after it."""
    _add_note(workspace, number, "ack", text or "acknowledged", author, None)


@app.command()
def note(
    number: AlertArgument,
    text: NoteTextArgument,
    author: AuthorOption = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Keep what was learned."""
    _add_note(workspace, number, "note", text, author, None)


@app.command()
def resolve(
    number: AlertArgument,
    text: NoteTextArgument,
    author: AuthorOption = None,
    tag: Annotated[
        str | None, typer.Option("--tag", help="The remedy in a word, to find it again.")
    ] = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Keep what fixed it. Its state goes by its events and stays."""
    _add_note(workspace, number, "resolution", text, author, tag)


def _add_note(
    workspace: Any, number: str, kind: NoteKind, text: str, author: str | None, tag: str | None
) -> None:
    with open_workspace(workspace) as (_, connection):
        alert = _find_alert(connection, number)
        add_note(
            connection,
            alert["id"],
            kind=kind,
            text=text,
            author=author or getpass.getuser(),
            tag=tag,
        )
    print(f"{kind} kept with {alert['rule']} of {format_time(alert['starts_at'])}")


def _find_alert(connection: Connection[Any], number: str) -> dict[str, Any]:
    found = (
        _matching(connection, number.lower().replace("%", "").replace("_", "")) if number else []
    )
    if not found:
        raise UsageError(f"no alert {number!r}, as `moirae alerts list --all` shows them")
    if len(found) > 1:
        raise UsageError(f"{number!r} begins the ids of several alerts; give more of it")
    return found[0]


def _matching(connection: Connection[Any], prefix: str) -> list[dict[str, Any]]:
    """At most two, which is enough to know that the prefix is ambiguous."""
    values = {"rule": None, "states": None, "id": prefix, "everything": True, "limit": 2}
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_QUERIES["alerts"], values).fetchall()


def _format_note(found: dict[str, Any]) -> str:
    tag = f" [{found['tag']}]" if found["tag"] else ""
    return f"{found['text']}{tag} ({format_time(found['at'])})"


def _format_lasted(alert: dict[str, Any]) -> str:
    span: timedelta = (alert["ends_at"] or alert["last_at"]) - alert["starts_at"]
    return format_duration(timedelta(seconds=round(span.total_seconds()))) + (
        "" if alert["ends_at"] else " so far"
    )


def _format_subject(alert: dict[str, Any]) -> Any:
    return alert["annotations"].get("summary") or alert["key"]
