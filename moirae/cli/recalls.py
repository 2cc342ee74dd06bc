"""`similar`, `recalls`: what the past says, and how far it has been asked."""

import sys
import time
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer
from psycopg import Connection
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

import sql
from moirae.alerts import find_event
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    LimitOption,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    escape_control,
    format_cell,
    limited,
    open_workspace,
    print_json,
    print_left_out,
    print_table,
)
from moirae.cli.options import format_time as moment
from moirae.errors import UsageError
from moirae.inspect import RecallAnswer, SimilarEvent, describe_coverage, load_answers

app = typer.Typer(help="Questions to the past, and how far they are.", no_args_is_help=True)
_QUERIES = sql.load("recalls")

_STATES = ("waiting", "running", "suspended", "done", "finalized", "cancelled", "failed")
# Below this probability that the best hit is of the same kind, there is probably nothing comparable.
_COMPARABLE_THRESHOLD = 0.25
_ROWS = 20  # of an SQL answer that are drawn
# Seconds between two looks of `watch`.
_POLL_INTERVAL = 0.3

EventArgument = Annotated[
    str, typer.Argument(metavar="EID", help="Event, alert or recall ID, or a unique prefix of it.")
]
RecallStateOption = Annotated[
    list[str] | None, typer.Option("--state", help=f"Only in this state: {', '.join(_STATES)}.")
]
RuleOption = Annotated[
    str | None, typer.Option("--rule", help="Only of this rule, with or without its group.")
]


def similar(
    eid: EventArgument,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """The past events most like this one: why, what fixed them, how much of history was read."""
    with open_workspace(workspace) as (_, connection):
        number = find_event(connection, eid)
        found = [answer for answer in load_answers(connection, number) if answer.kind == "similar"]
    if not found:
        raise UsageError(
            f"event {number} has no similarity recall: its rule asks for none, or its alert has not fired"
        )
    if output is OutputFormat.JSON:
        print_json([_answer_to_json(answer) for answer in found])
        return
    Console(width=None if sys.stdout.isatty() else 160).print(
        Group(*(render_answer(answer) for answer in found))
    )


@app.command("list")
def list_(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    eid: Annotated[str | None, typer.Option("--event", help="Only of this event.")] = None,
    rule: RuleOption = None,
    state: RecallStateOption = None,
    limit: LimitOption = 50,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """The newest recalls."""
    unknown = [s for s in state or () if s not in _STATES]
    if unknown:
        raise UsageError(f"no state {unknown[0]!r}; there are {', '.join(_STATES)}")
    with open_workspace(workspace) as (_, connection):
        check_rule(connection, rule)
        event = None if eid is None else find_event(connection, eid)
        values = {"eid": event, "rule": rule, "states": state, "limit": limit}
        rows, left_out = limited(connection, _QUERIES["tasks"], values)
    if output is OutputFormat.JSON:
        print_json(rows)
        print_left_out(left_out, len(rows), output)
        return
    shown = [
        (
            row["created_at"],
            row["rule"],
            row["recall"],
            _format_state(row),
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
    columns = (
        "asked",
        "rule",
        "recall",
        "state",
        "chunks",
        "revision",
        "tickets",
        "results",
        "seconds",
        "id",
        "event",
    )
    print_table(columns, shown, "no recalls")
    print_left_out(left_out, len(rows), output)


@app.command()
def show(
    eid: EventArgument,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """The last answers about an event."""
    with open_workspace(workspace) as (_, connection):
        found = load_answers(connection, find_event(connection, eid))
    if output is OutputFormat.JSON:
        print_json([_answer_to_json(answer) for answer in found])
    elif not found:
        print("nothing was asked about this event")
    else:
        Console(width=None if sys.stdout.isatty() else 160).print(
            Group(*(render_answer(answer) for answer in found))
        )


@app.command()
def watch(eid: EventArgument, workspace: WorkspaceOption = DEFAULT_WORKSPACE) -> None:
    """Draw the answers about an event as they get better, until all are final."""
    console = Console(width=None if sys.stdout.isatty() else 160)
    with open_workspace(workspace) as (_, connection):
        number = find_event(connection, eid)
        with Live(console=console, refresh_per_second=4, transient=False) as screen:
            while True:
                found = load_answers(connection, number)
                screen.update(
                    Group(*(render_answer(answer) for answer in found))
                    if found
                    else Text("nothing was asked yet")
                )
                if found and all(answer.state not in ("waiting", "running") for answer in found):
                    return
                time.sleep(_POLL_INTERVAL)


def check_rule(connection: Connection[Any], rule: str | None) -> None:
    """Raises `UsageError` for a rule of which nothing is known."""
    if (
        rule is not None
        and not connection.execute(_QUERIES["known_rule"], {"rule": rule}).fetchall()
    ):
        raise UsageError(f"no rule {escape_control(rule)!r} is deployed or has recalls")


def _answer_to_json(answer: RecallAnswer) -> dict[str, Any]:
    hits = None if answer.hits is None else [vars(hit) for hit in answer.hits]
    return {**vars(answer), "hits": hits}


def _format_state(row: Mapping[str, Any]) -> str:
    if row["state"] == "suspended" and row["deadline"] is not None:
        return f"suspended until {moment(row['deadline'].replace(microsecond=0))}"
    if row["state"] == "waiting" and row["revision"]:
        return "waiting, has made room for first answers"
    return str(row["state"])


# Drawing


def render_answer(answer: RecallAnswer) -> RenderableType:
    """An answer for people: what it says, then from how much of history."""
    head = Text.assemble((f"{answer.recall}  ", "bold"), (_format_coverage(answer), "dim"))
    if answer.hits is not None:
        body: RenderableType = (
            render_hits(answer.hits) if answer.hits else Text("  nothing like it in what was read")
        )
        if answer.comparable is not None:
            body = Group(_render_comparable(answer.comparable), body)
    elif answer.rows is not None:
        body = _render_rows(answer.rows, (answer.estimates or []) if _is_partial(answer) else [])
    else:
        goes_on = answer.state in ("waiting", "running", "suspended")
        body = Text("  no answer yet" if goes_on else "  no answer")
    if answer.error is not None:
        body = Group(body, Text(f"  failed: {escape_control(answer.error)}", "red"))
    return Group(head, body, Text(""))


def _format_coverage(answer: RecallAnswer) -> str:
    if answer.coverage is None:
        return answer.state
    return f"revision {answer.number}, {answer.state}: {describe_coverage(answer.coverage)}"


def _render_comparable(probability: float) -> Text:
    """What the resolved alerts teach about an answer like this one."""
    if probability < _COMPARABLE_THRESHOLD:
        return Text(
            f"  probably nothing comparable: the best is of the same kind in {probability:.0%} of such cases"
        )
    return Text(f"  the best is of the same kind in {probability:.0%} of such cases", "dim")


def render_hits(similar_events: Iterable[SimilarEvent]) -> RenderableType:
    """Past events, each with its reasons and with what was done."""
    lines: list[Text] = []
    for hit in similar_events:
        past = hit.past or {}
        summary = (past.get("annotations") or {}).get("summary") or format_cell(
            past.get("key") or {}
        )
        head = (f"  {hit.rank:>2}. {hit.score:.3f} ", "bold cyan")
        # The start of the alert's ID, for `alerts resolve` and `similar`.
        alert_id = f"{str(past['alert'])[:8]}  " if past.get("alert") else ""
        when = f"{alert_id}{moment(hit.ts)}  "
        lines.append(
            Text.assemble(
                head, (when, "dim"), escape_control(summary), (_format_outcome(past), "dim")
            )
        )
        terms = ", ".join(f"{escape_control(term)} {share:.0%}" for term, share in hit.shared[:5])
        lines.append(Text.assemble(("      shares ", "dim"), terms))
        lines += [_render_note(label, note) for label, note in _latest_notes(hit)]
    return Group(*lines)


def _latest_notes(hit: SimilarEvent) -> list[tuple[str, Mapping[str, Any]]]:
    """What people did then: who took it up, the last that was noted, the last that fixed it."""
    found = []
    for kind, label in (("ack", "taken up by"), ("note", "noted"), ("resolution", "fixed by")):
        notes = [note for note in (hit.past or {}).get("notes", ()) if note["kind"] == kind]
        found += [(label, note) for note in notes[-1:]]
    return found


def _render_note(label: str, note: Mapping[str, Any]) -> Text:
    author = f"{escape_control(note['author'])} " if note["kind"] == "ack" else ""
    tag = f" [{escape_control(note['tag'])}]" if note["tag"] else ""
    style = "green" if note["kind"] == "resolution" else ""
    return Text.assemble(
        (f"      {label} ", "dim"), author, (escape_control(note["text"]), style), tag
    )


def _format_outcome(past: Mapping[str, Any]) -> str:
    if not past or past.get("starts_at") is None:
        return ""
    end = past["ends_at"] or past["last_at"]
    minutes = (end - past["starts_at"]).total_seconds() / 60
    again = f", came back {past['again']} times in a week" if past["again"] else ""
    return f"  lasted {minutes:.0f} min{again}"


def _is_partial(answer: RecallAnswer) -> bool:
    return answer.coverage is not None and bool(answer.coverage["partial"])


def _render_rows(rows: list[dict[str, Any]], estimates: list[dict[str, Any]]) -> RenderableType:
    """The rows of an answer; below each what is likely over all that was asked for, where that is not known yet."""
    if not rows:
        return Text("  no rows in what was read")
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2))
    for name in rows[0]:
        table.add_column(f"  {name}")
    for place, row in enumerate(rows[:_ROWS]):
        table.add_row(*(f"  {_format_value(value)}" for value in row.values()))
        if place < len(estimates):
            table.add_row(
                *(f"  {_format_estimate(estimates[place].get(name))}" for name in row), style="dim"
            )
    if len(rows) <= _ROWS:
        return table
    return Group(table, Text(f"  … and {len(rows) - _ROWS:,} more (use -o json)", "dim"))


def _format_estimate(estimate: Mapping[str, Any] | None) -> str:
    """An estimate with its interval: ≈ 12 [10, 14]; an open side is left empty."""
    if estimate is None or estimate["value"] is None:
        return ""
    low, high = (
        "" if side is None else _format_value(side) for side in (estimate["low"], estimate["high"])
    )
    return (
        f"≈ {_format_value(estimate['value'])} [{low}, {high}]"
        if low or high
        else f"≈ {_format_value(estimate['value'])}"
    )


def _format_value(value: Any) -> str:
    return f"{value:,.2f}" if isinstance(value, float) else format_cell(value)
