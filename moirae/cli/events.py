"""`events`: what the rules found."""

from typing import Annotated
from uuid import UUID

import typer
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
)
from moirae.errors import UsageError

app = typer.Typer(help="What the rules found.", no_args_is_help=True)
_QUERIES = sql.load("alerts")

Rule = Annotated[str | None, typer.Option("--rule", help="Only of this rule, with or without its group.")]


@app.command("list")
def list_(
    workspace: Workspace = WORKSPACE, rule: Rule = None, limit: Limit = 50, output: OutputOption = Output.TABLE
) -> None:
    """The newest events."""
    with database(workspace) as (_, connection), connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_QUERIES["events"], {"rule": rule, "limit": limit}).fetchall()
    if output is Output.JSON:
        print_json(rows)
        return
    shown = [(r["ts"], r["rule"], r["attributes"], "settled" if r["settled"] else "detected", r["eid"]) for r in rows]
    print_table(["ts", "rule", "attributes", "state", "eid"], shown, "no events")


@app.command()
def show(
    eid: Annotated[str, typer.Argument(help="The event's id.")],
    workspace: Workspace = WORKSPACE,
    output: OutputOption = Output.TABLE,
) -> None:
    """One event, whole."""
    try:
        number = UUID(eid)
    except ValueError:
        raise UsageError(f"{eid!r} is not an event id (eid), as `moirae events list` shows them") from None
    with database(workspace) as (_, connection), connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_QUERIES["event"], {"eid": number}).fetchall()
    if not rows:
        raise UsageError(f"no event {eid}")
    if output is Output.JSON:
        print_json(rows[0])
        return
    event = {**rows[0], **{f"event.{name}": value for name, value in rows[0]["attributes"].items()}}
    del event["attributes"]
    print_table(["", ""], event.items(), "")
