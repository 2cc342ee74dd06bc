"""`chunks`, `dead-letters`, `status`, `doctor`: what is kept, and whether it is whole."""

import base64
from pathlib import Path
from typing import Annotated, Any

import typer

from archiver.catalog import Catalog
from archiver.times import optional_datetime
from moirae import status as state
from moirae.cli.options import (
    WORKSPACE,
    Limit,
    Output,
    OutputOption,
    Workspace,
    database,
    print_json,
    print_table,
    size,
    visible,
)
from moirae.errors import UsageError

chunks = typer.Typer(help="The pieces of history.", no_args_is_help=True)
dead_letters = typer.Typer(help="Lines that were not archived.", no_args_is_help=True)

_REASONS = ("malformed", "quarantined", "conflict")


@chunks.command("list")
def list_chunks(workspace: Workspace = WORKSPACE, output: OutputOption = Output.TABLE) -> None:
    """Chunks, oldest first: their time and what they hold."""
    from archiver.table import StreamTable
    from moirae.live.schemas import schema

    with database(workspace) as (settings, connection):
        catalog = Catalog(connection)
        found, waiting = catalog.chunks(), set(catalog.unclustered())
    tables = [StreamTable(Path(settings.archive), schema(name, s)).chunks() for name, s in settings.streams.items()]
    rows: list[dict[str, Any]] = []
    for chunk in found:
        held = [table[chunk.id] for table in tables if chunk.id in table]
        rows.append(
            {
                "id": chunk.id,
                "from": optional_datetime(chunk.from_ts),
                "to": optional_datetime(chunk.to_ts),
                "state": chunk.state,
                "rows": sum(h.rows for h in held),
                "files": sum(h.files for h in held),
                "bytes": sum(h.bytes for h in held),
                "clustered": chunk.state != "present" and chunk.id not in waiting,
            }
        )
    if output is Output.JSON:
        print_json(rows)
    else:
        print_table(list(rows[0]), [{**r, "bytes": size(r["bytes"])}.values() for r in rows], "")


@dead_letters.command("list")
def list_dead_letters(
    workspace: Workspace = WORKSPACE,
    stream: Annotated[str | None, typer.Option("--stream", help="Only of this stream.")] = None,
    reason: Annotated[str | None, typer.Option("--reason", help=f"Only for: {', '.join(_REASONS)}.")] = None,
    limit: Limit = 50,
    output: OutputOption = Output.TABLE,
) -> None:
    """Refused lines, newest first, with source, line, reason and bytes."""
    if reason is not None and reason not in _REASONS:
        raise UsageError(f"no reason {reason!r}; there are {', '.join(_REASONS)}")
    with database(workspace) as (_, connection):
        rows = Catalog(connection).dead_letters(stream, reason, limit)
    for row in rows:
        row["raw_base64"] = base64.b64encode(row["raw"]).decode()
        row["raw"] = row["raw"].decode("utf-8", "backslashreplace")
    if output is Output.JSON:
        print_json(rows)
        return
    shown = [(r["stream"], r["source"], r["line"], r["reason"], r["detail"], visible(r["raw"])[:80]) for r in rows]
    print_table(["stream", "source", "line", "reason", "detail", "raw"], shown, "no dead letters")


def status(workspace: Workspace = WORKSPACE, output: OutputOption = Output.TABLE) -> None:
    """Whether all is well (exit code 0) or not (1), and what was read."""
    with database(workspace) as (_, connection):
        found = state.gather(connection)
    if output is Output.JSON:
        print_json(found)
        raise typer.Exit(0 if state.verdict(found)[0] else 1)
    well, words = state.verdict(found)
    print(("ok: " if well else "NOT WELL: ") + words + "\n")
    columns = ["stream", "read", "archived", "late", "duplicates", "dead letters", "newest"]
    print_table(columns, [_stream_row(n, s) for n, s in found["streams"].items()], "no streams have been read")
    alerts = ", ".join(f"{count:,} {name}" for name, count in sorted(found["alerts"].items())) or "none"
    print(
        f"\nalerts: {alerts}\nevents: {found['events']['settled']:,} settled, {found['events']['detected']:,} detected"
    )
    print(f"chunks: {found['chunks']['present']} present, {found['chunks']['recent']} recent")
    running = sum(rule["state"] == "running" for rule in found["rules"])
    print(f"rules:  {running} running of {len(found['rules'])}\n")
    processes = [(p["role"], p["pid"], p["state"], p["alive"], p["started_at"]) for p in found["processes"]]
    print_table(["process", "pid", "state", "alive", "started"], processes, "no process has run")
    raise typer.Exit(0 if well else 1)


def _stream_row(name: str, found: dict[str, Any]) -> list[Any]:
    account = found["accounting"]
    counts = [account["read"], account["archived"], found["late"], account["duplicates"], account["dead_lettered"]]
    return [name, *counts, found["newest"]]


def doctor(workspace: Workspace = WORKSPACE, output: OutputOption = Output.TABLE) -> None:
    """Hold the ledger against the tables, by ids: exit 1 where anything is wrong."""
    from moirae.doctor import examine

    with database(workspace) as (settings, connection):
        findings = examine(settings, connection)
    if output is Output.JSON:
        print_json([vars(finding) for finding in findings])
    else:
        rows = [("FAIL" if f.wrong else "ok", f.check, "; ".join(f.wrong[:10]) or f.figure) for f in findings]
        print_table(["", "check", "found"], rows, "")
    raise typer.Exit(any(f.wrong for f in findings))
