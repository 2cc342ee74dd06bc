"""`events`: what the rules found."""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from psycopg.rows import dict_row

import sql
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    LimitOption,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    open_workspace,
    print_json,
    print_table,
)
from moirae.cli.recalls import EventArgument, resolve_event
from moirae.errors import UsageError

app = typer.Typer(help="What the rules found.", no_args_is_help=True)
_QUERIES = sql.load("alerts")

# Different rows of a context that are shown.
_MAX_CONTEXT_ROWS = 20

RuleOption = Annotated[
    str | None, typer.Option("--rule", help="Only of this rule, with or without its group.")
]


@app.command("list")
def list_(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    rule: RuleOption = None,
    limit: LimitOption = 50,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """The newest events."""
    with (
        open_workspace(workspace) as (_, connection),
        connection.cursor(row_factory=dict_row) as cursor,
    ):
        rows = cursor.execute(_QUERIES["events"], {"rule": rule, "limit": limit}).fetchall()
    if output is OutputFormat.JSON:
        print_json(rows)
        return
    shown = [(r["ts"], r["rule"], r["attributes"], _event_state(r), r["eid"]) for r in rows]
    print_table(["ts", "rule", "attributes", "state", "eid"], shown, "no events")


@app.command()
def show(
    eid: EventArgument,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """One event, whole."""
    with (
        open_workspace(workspace) as (_, connection),
        connection.cursor(row_factory=dict_row) as cursor,
    ):
        number = resolve_event(connection, eid)
        rows = cursor.execute(_QUERIES["event"], {"eid": number}).fetchall()
        found = cursor.execute(sql.load("contexts")["context"], {"eids": [number]}).fetchall()
    if not rows:
        raise UsageError(f"no event {eid}")
    context = next((c for c in found if c["version"] == rows[0]["version"]), None)
    if output is OutputFormat.JSON:
        shown = (
            {}
            if context is None
            else {name: context[name] for name in ("contexts", "surroundings")}
        )
        print_json({**rows[0], **shown})
        return
    event = {**rows[0], **{f"event.{name}": value for name, value in rows[0]["attributes"].items()}}
    del event["attributes"]
    lines = [*event.items(), *(_format_context(context) if context else ())]
    print_table(["", ""], lines, "")


def _event_state(row: dict[str, Any]) -> str:
    return "past" if row["past"] else "settled" if row["settled"] else "detected"


def _format_context(context: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Each context and surrounding: its rows, equal ones counted."""
    standing = "" if context["settled"] else " (provisional)"
    for kind in ("contexts", "surroundings"):
        for name, rows in context[kind].items():
            counted = Counter(
                ", ".join(f"{k}={v}" for k, v in row.items() if v is not None) for row in rows
            )
            words = [
                f"{text} ×{n}" if n > 1 else text
                for text, n in counted.most_common(_MAX_CONTEXT_ROWS)
            ] or ["empty"]
            if len(counted) > _MAX_CONTEXT_ROWS:
                words.append(f"… and {len(counted) - _MAX_CONTEXT_ROWS} others")
            yield from zip(
                [f"{kind.removesuffix('s')} {name}{standing}", *[""] * len(words)],
                words,
                strict=False,
            )
