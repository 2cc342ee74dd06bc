"""`similar`, `recalls`: what the past says, and how far it has been asked."""

import sys
import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Any
from uuid import UUID

import typer
from psycopg import Connection
from psycopg.rows import dict_row
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

import sql
from moirae.alerts.past import Answer, Hit, answers, covered, find
from moirae.cli.options import (
    WORKSPACE,
    Limit,
    Output,
    OutputOption,
    Workspace,
    cell,
    database,
    print_json,
    print_table,
    visible,
)
from moirae.cli.options import time as moment
from moirae.errors import UsageError

app = typer.Typer(help="Questions to the past, and how far they are.", no_args_is_help=True)
_QUERIES = sql.load("recalls")

_STATES = ("waiting", "running", "suspended", "done", "finalized", "cancelled", "failed")
# Below this probability that the best hit is of the same kind, there is probably nothing comparable.
_NOTHING = 0.25
# Seconds between two looks of `watch`.
_LOOK = 0.3

Eid = Annotated[str, typer.Argument(metavar="EID", help="The id of the event or its alert, or how it begins.")]
State = Annotated[list[str] | None, typer.Option("--state", help=f"Only in this state: {', '.join(_STATES)}.")]
Rule = Annotated[str | None, typer.Option("--rule", help="Only of this rule, with or without its group.")]


def similar(eid: Eid, workspace: Workspace = WORKSPACE, output: OutputOption = Output.TABLE) -> None:
    """The past events most like this one: why, what fixed them, how much of history was read."""
    with database(workspace) as (_, connection):
        number = one(connection, eid)
        found = [answer for answer in answers(connection, number) if answer.kind == "similar"]
    if not found:
        raise UsageError(f"event {number} has no similarity recall: its rule asks for none, or its alert has not fired")
    if output is Output.JSON:
        print_json([_json(answer) for answer in found])
        return
    Console(width=None if sys.stdout.isatty() else 160).print(Group(*(drawn(answer) for answer in found)))


@app.command("list")
def list_(
    workspace: Workspace = WORKSPACE,
    eid: Annotated[str | None, typer.Option("--event", help="Only of this event.")] = None,
    rule: Rule = None,
    state: State = None,
    limit: Limit = 50,
    output: OutputOption = Output.TABLE,
) -> None:
    """The newest recalls."""
    unknown = [s for s in state or () if s not in _STATES]
    if unknown:
        raise UsageError(f"no state {unknown[0]!r}; there are {', '.join(_STATES)}")
    with database(workspace) as (_, connection):
        check_rule(connection, rule)
        event = None if eid is None else _asked_about(connection, eid)
        rows = _tasks(connection, eid=event, rule=rule, states=state, limit=limit)
    if output is Output.JSON:
        print_json(rows)
        return
    shown = [
        (
            row["created_at"],
            row["rule"],
            row["recall"],
            _state(row),
            f"{row['read']}/{row['pieces'] if row['pieces'] is not None else '?'}",
            row["revision"],
            row["tickets"],
            row["results"],
            f"{row['seconds']:.2f}",
            row["id"],
            row["eid"],
        )
        for row in rows
    ]
    columns = ("asked", "rule", "recall", "state", "chunks", "revision", "tickets", "results", "seconds", "id", "event")
    print_table(columns, shown, "no recalls")


@app.command()
def show(eid: Eid, workspace: Workspace = WORKSPACE, output: OutputOption = Output.TABLE) -> None:
    """The last answers about an event."""
    with database(workspace) as (_, connection):
        found = answers(connection, one(connection, eid))
    if output is Output.JSON:
        print_json([_json(answer) for answer in found])
    elif not found:
        print("nothing was asked about this event")
    else:
        Console(width=None if sys.stdout.isatty() else 160).print(Group(*(drawn(answer) for answer in found)))


@app.command()
def watch(eid: Eid, workspace: Workspace = WORKSPACE) -> None:
    """Draw the answers about an event as they get better, until all are final."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    with database(workspace) as (_, connection):
        number = one(connection, eid)
        with Live(console=console, refresh_per_second=4, transient=False) as screen:
            while True:
                found = answers(connection, number)
                screen.update(Group(*(drawn(answer) for answer in found)) if found else Text("nothing was asked yet"))
                if found and all(answer.state not in ("waiting", "running") for answer in found):
                    return
                time.sleep(_LOOK)


def _asked_about(connection: Connection[Any], eid: str) -> UUID:
    """The event that is meant, be it that nothing but its recalls is left."""
    begins = eid.lower()
    known = not begins.strip("0123456789abcdef-") and not find(connection, eid)
    found = connection.execute(_QUERIES["asked_about"], {"eid": begins}).fetchall() if known else []
    return found[0][0] if len(found) == 1 else one(connection, eid)


def one(connection: Connection[Any], eid: str) -> UUID:
    """The event that is meant. Raises `UsageError` where that is none or not clear."""
    found = find(connection, eid)
    if not found:
        raise UsageError(f"no event {visible(eid)!r}, as `moirae events list` and `moirae alerts list` show them")
    if len(found) > 1:
        raise UsageError(f"{visible(eid)!r} begins the ids of several events; give more of it")
    return found[0]


def check_rule(connection: Connection[Any], rule: str | None) -> None:
    """Raises `UsageError` for a rule of which nothing is known."""
    if rule is not None and not connection.execute(_QUERIES["known_rule"], {"rule": rule}).fetchall():
        raise UsageError(f"no rule {visible(rule)!r} is deployed or has recalls")


def _tasks(
    connection: Connection[Any], eid: UUID | None, rule: str | None, states: list[str] | None, limit: int
) -> list[dict[str, Any]]:
    values = {"eid": eid, "rule": rule, "states": states, "limit": limit}
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(_QUERIES["tasks"], values).fetchall()


def _json(answer: Answer) -> dict[str, Any]:
    hits = None if answer.hits is None else [vars(hit) for hit in answer.hits]
    return {**vars(answer), "hits": hits}


def _state(row: Mapping[str, Any]) -> str:
    if row["state"] == "suspended" and row["deadline"] is not None:
        return f"suspended until {moment(row['deadline'].replace(microsecond=0))}"
    if row["state"] == "waiting" and row["revision"]:
        return "waiting, has made room for first answers"
    return str(row["state"])


# Drawing


def drawn(answer: Answer) -> RenderableType:
    """An answer for people: what it says, then from how much of history."""
    head = Text.assemble((f"{answer.recall}  ", "bold"), (_standing(answer), "dim"))
    if answer.hits is not None:
        body: RenderableType = hits(answer.hits) if answer.hits else Text("  nothing like it in what was read")
        if answer.comparable is not None:
            body = Group(_worth(answer.comparable), body)
    elif answer.rows is not None:
        body = _table(answer.rows, (answer.estimates or []) if _partial(answer) else [])
    else:
        goes_on = answer.state in ("waiting", "running", "suspended")
        body = Text("  no answer yet" if goes_on else "  no answer")
    if answer.error is not None:
        body = Group(body, Text(f"  failed: {visible(answer.error)}", "red"))
    return Group(head, body, Text(""))


def _standing(answer: Answer) -> str:
    if answer.coverage is None:
        return answer.state
    return f"revision {answer.number}, {answer.state}: {covered(answer.coverage)}"


def _worth(probability: float) -> Text:
    """What the resolved alerts teach about an answer like this one."""
    if probability < _NOTHING:
        return Text(f"  probably nothing comparable: the best is of the same kind in {probability:.0%} of such cases")
    return Text(f"  the best is of the same kind in {probability:.0%} of such cases", "dim")


def hits(found: Iterable[Hit]) -> RenderableType:
    """Past events, each with its reasons and with what was done."""
    lines: list[Text] = []
    for hit in found:
        past = hit.past or {}
        summary = (past.get("annotations") or {}).get("summary") or cell(past.get("key") or {})
        head = (f"  {hit.rank:>2}. {hit.score:.3f} ", "bold cyan")
        lines.append(Text.assemble(head, (f"{moment(hit.ts)}  ", "dim"), visible(summary), (_went(past), "dim")))
        terms = ", ".join(f"{visible(term)} {share:.0%}" for term, share in hit.shared[:5])
        lines.append(Text.assemble(("      shares ", "dim"), terms))
        lines += [_said(label, note) for label, note in _done(hit)]
    return Group(*lines)


def _done(hit: Hit) -> list[tuple[str, Mapping[str, Any]]]:
    """What people did then: who took it up, the last that was noted, the last that fixed it."""
    found = []
    for kind, label in (("ack", "taken up by"), ("note", "noted"), ("resolution", "fixed by")):
        notes = [note for note in (hit.past or {}).get("notes", ()) if note["kind"] == kind]
        found += [(label, note) for note in notes[-1:]]
    return found


def _said(label: str, note: Mapping[str, Any]) -> Text:
    author = f"{visible(note['author'])} " if note["kind"] == "ack" else ""
    tag = f" [{visible(note['tag'])}]" if note["tag"] else ""
    style = "green" if note["kind"] == "resolution" else ""
    return Text.assemble((f"      {label} ", "dim"), author, (visible(note["text"]), style), tag)


def _went(past: Mapping[str, Any]) -> str:
    if not past or past.get("starts_at") is None:
        return ""
    end = past["ends_at"] or past["last_at"]
    minutes = (end - past["starts_at"]).total_seconds() / 60
    again = f", came back {past['again']} times in a week" if past["again"] else ""
    return f"  lasted {minutes:.0f} min{again}"


def _partial(answer: Answer) -> bool:
    return answer.coverage is not None and bool(answer.coverage["partial"])


def _table(rows: list[dict[str, Any]], estimates: list[dict[str, Any]]) -> RenderableType:
    """The rows of an answer; below each what is likely over all that was asked for, where that is not known yet."""
    if not rows:
        return Text("  no rows in what was read")
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2))
    for name in rows[0]:
        table.add_column(f"  {name}")
    for place, row in enumerate(rows[:20]):
        table.add_row(*(f"  {_value(value)}" for value in row.values()))
        if place < len(estimates):
            table.add_row(*(f"  {_likely(estimates[place].get(name))}" for name in row), style="dim")
    return table


def _likely(estimate: Mapping[str, Any] | None) -> str:
    """An estimate with its interval: ≈ 12 [10, 14]; an open side is left empty."""
    if estimate is None or estimate["value"] is None:
        return ""
    low, high = ("" if side is None else _value(side) for side in (estimate["low"], estimate["high"]))
    return f"≈ {_value(estimate['value'])} [{low}, {high}]" if low or high else f"≈ {_value(estimate['value'])}"


def _value(value: Any) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else cell(value)
