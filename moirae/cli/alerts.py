"""`alerts`: what stands, what stood, and what people did about it."""

import getpass
from datetime import timedelta
from typing import Annotated, Any

import typer
from psycopg import Connection
from psycopg.rows import dict_row

import sql
from moirae.cli.options import (
    WORKSPACE,
    Limit,
    Output,
    OutputOption,
    Workspace,
    database,
    print_json,
    print_table,
    time,
)
from moirae.durations import format_duration
from moirae.errors import UsageError

app = typer.Typer(help="What stands, what stood, and what was done about it.", no_args_is_help=True)
_QUERIES = sql.load("alerts")

_STATES = ("pending", "firing", "resolved", "provisional", "withdrawn")
_WORDS = {
    "provisional": "detected; not settled yet, so its start may still change",
    "pending": "events have begun, not yet for as long as the rule asks",
    "firing": "going on",
    "resolved": "over",
    "withdrawn": "was detected, but settling did not confirm it",
}

_OVER = "over before the rule was there; found in its history"

_VERDICTS = {
    "kept": "kept: it is outside what was normal",
    "held back": "held back: the rule's `where` is false for it",
    "no history": "no history to judge it by",
}

Number = Annotated[str, typer.Argument(metavar="ALERT", help="The id of the alert or its event, or how it begins.")]
Author = Annotated[str | None, typer.Option("--author", help="Who; your login name if not given.")]
Text = Annotated[str, typer.Argument(help="What.")]
State = Annotated[list[str] | None, typer.Option("--state", help=f"Only in this state: {', '.join(_STATES)}.")]
Rule = Annotated[str | None, typer.Option("--rule", help="Only of this rule, with or without its group.")]


@app.command("list")
def list_(
    workspace: Workspace = WORKSPACE,
    rule: Rule = None,
    state: State = None,
    everything: Annotated[
        bool,
        typer.Option(
            "--all", help="Also withdrawn, pending that never fired, and what was over before the rule was there."
        ),
    ] = False,
    limit: Limit = 50,
    output: OutputOption = Output.TABLE,
) -> None:
    """The newest alerts."""
    unknown = [s for s in state or () if s not in _STATES]
    if unknown:
        raise UsageError(f"no state {unknown[0]!r}; there are {', '.join(_STATES)}")
    with database(workspace) as (_, connection):
        rows = _alerts(connection, rule=rule, states=state, everything=everything or bool(state), limit=limit)
    if output is Output.JSON:
        print_json(rows)
        return
    shown = [
        (
            row["starts_at"],
            _lasted(row),
            row["state"],
            row["labels"].get("severity"),
            row["rule"],
            _about(row),
            row["id"],
        )
        for row in rows
    ]
    print_table(["starts", "lasted", "state", "severity", "rule", "about", "id"], shown, "no alerts")


@app.command()
def show(number: Number, workspace: Workspace = WORKSPACE, output: OutputOption = Output.TABLE) -> None:
    """One alert: what, where, since when, what was done."""
    with database(workspace) as (_, connection):
        alert = _one(connection, number)
        notes = _notes(connection, alert)
    if output is Output.JSON:
        print_json({**alert, "notes": notes})
        return
    lines: list[tuple[str, Any]] = [
        ("alert", alert["labels"].get("alertname")),
        ("state", f"{alert['state']}: {_OVER if alert['past'] else _WORDS[alert['state']]}"),
        *alert["annotations"].items(),
        *((("history", _VERDICTS[alert["verdict"]]),) if alert["verdict"] else ()),
        ("key", alert["key"]),
        ("labels", alert["labels"]),
        ("started", alert["starts_at"]),
        ("fired", alert["fired_at"]),
        ("last event", alert["last_at"]),
        ("ended", alert["ends_at"]),
        ("lasted", _lasted(alert)),
        ("events", alert["events"]),
        ("rule", f"{alert['rule']} (version {alert['version']})"),
        ("first event", alert["eid"]),
        ("id", alert["id"]),
        *((f"{n['kind']} by {n['author']}", _note(n)) for n in notes),
    ]
    print_table(["", ""], lines, "")


@app.command()
def ack(number: Number, text: Text = "", author: Author = None, workspace: Workspace = WORKSPACE) -> None:
    """Say that somebody looks after it."""
    _add(workspace, number, "ack", text or "acknowledged", author, None)


@app.command()
def note(number: Number, text: Text, author: Author = None, workspace: Workspace = WORKSPACE) -> None:
    """Keep what was learned."""
    _add(workspace, number, "note", text, author, None)


@app.command()
def resolve(
    number: Number,
    text: Text,
    author: Author = None,
    tag: Annotated[str | None, typer.Option("--tag", help="The remedy in a word, to find it again.")] = None,
    workspace: Workspace = WORKSPACE,
) -> None:
    """Keep what fixed it. Its state goes by its events and stays."""
    _add(workspace, number, "resolution", text, author, tag)


def _add(workspace: Any, number: str, kind: str, text: str, author: str | None, tag: str | None) -> None:
    if not text.strip():
        raise UsageError(f"the {kind} is empty")
    with database(workspace) as (_, connection):
        alert = _one(connection, number)
        values = {"alert": alert["id"], "kind": kind, "author": author or getpass.getuser(), "text": text, "tag": tag}
        connection.execute(_QUERIES["add_note"], values)
    print(f"{kind} kept with {alert['rule']} of {time(alert['starts_at'])}")


def _alerts(
    connection: Connection[Any],
    rule: str | None = None,
    states: list[str] | None = None,
    number: str | None = None,
    everything: bool = True,
    limit: int = 2,
) -> list[dict[str, Any]]:
    values = {"rule": rule, "states": states, "id": number, "everything": everything, "limit": limit}
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_QUERIES["alerts"], values).fetchall()


def _one(connection: Connection[Any], number: str) -> dict[str, Any]:
    found = _alerts(connection, number=number.lower().replace("%", "").replace("_", "")) if number else []
    if not found:
        raise UsageError(f"no alert {number!r}, as `moirae alerts list --all` shows them")
    if len(found) > 1:
        raise UsageError(f"{number!r} begins the ids of several alerts; give more of it")
    return found[0]


def _notes(connection: Connection[Any], alert: dict[str, Any]) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_QUERIES["notes"], {"ids": [alert["id"]]}).fetchall()


def _note(found: dict[str, Any]) -> str:
    tag = f" [{found['tag']}]" if found["tag"] else ""
    return f"{found['text']}{tag} ({time(found['at'])})"


def _lasted(alert: dict[str, Any]) -> str:
    span: timedelta = (alert["ends_at"] or alert["last_at"]) - alert["starts_at"]
    return format_duration(timedelta(seconds=round(span.total_seconds()))) + ("" if alert["ends_at"] else " so far")


def _about(alert: dict[str, Any]) -> Any:
    return alert["annotations"].get("summary") or alert["key"]
