"""`events`: what the rules found."""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from psycopg.rows import dict_row

import sql
from moirae.alerts import find_event
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    LimitOption,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    limited,
    open_workspace,
    print_json,
    print_left_out,
    print_table,
)
from moirae.cli.recalls import EventArgument
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
    with open_workspace(workspace) as (_, connection):
        rows, left_out = limited(connection, _QUERIES["events"], {"rule": rule, "limit": limit})
    if output is OutputFormat.JSON:
        print_json(rows)
        print_left_out(left_out, len(rows), output)
        return
    shown = [(r["ts"], r["rule"], r["attributes"], _event_state(r), r["eid"]) for r in rows]
    print_table(["ts", "rule", "attributes", "state", "eid"], shown, "no events")
    print_left_out(left_out, len(rows), output)


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
        number = find_event(connection, eid)
        rows = cursor.execute(_QUERIES["event"], {"eid": number}).fetchall()
        found = cursor.execute(sql.load("contexts")["context"], {"eids": [number]}).fetchall()
        of_event = (
            {"eid": number, "rule": rows[0]["rule"], "version": rows[0]["version"]}
            if rows
            else None
        )
        row = cursor.execute(sql.load("contexts")["cut"], of_event).fetchone() if of_event else None
        cut: dict[str, int] = row["cut"] if row else {}
    if not rows:
        raise UsageError(
            f"nothing but recalls is left of the event {number}: see `moirae recalls show {number}`"
        )
    context = next((c for c in found if c["version"] == rows[0]["version"]), None)
    if output is OutputFormat.JSON:
        shown = (
            {}
            if context is None
            else {name: context[name] for name in ("contexts", "surroundings")}
        )
        print_json({**rows[0], **shown, "cut": cut})
        return
    event = {**rows[0], **{f"event.{name}": value for name, value in rows[0]["attributes"].items()}}
    del event["attributes"]
    lines = [*event.items(), *(_format_context(context, cut) if context else ())]
    print_table(["", ""], lines, "")


def _event_state(row: dict[str, Any]) -> str:
    return "past" if row["past"] else "settled" if row["settled"] else "detected"


def _format_context(context: dict[str, Any], cut: dict[str, int]) -> Iterator[tuple[str, str]]:
    """Each context and surrounding: its rows, equal ones counted. `cut`: of those that are cut, how many there were."""
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
            if name in cut:
                words.append(
                    f"cut: {len(rows):,} of {cut[name]:,} rows are kept, which is the limit"
                )
            yield from zip(
                [f"{kind.removesuffix('s')} {name}{standing}", *[""] * len(words)],
                words,
                strict=False,
            )
