"""`chunks`, `dead-letters`, `status`, `doctor`: what is kept, and whether it is whole."""

import base64
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from psycopg import Connection

import sql
from archiver.chunks import CLUSTER, ChunkRecord
from archiver.ingest import Catalog
from archiver.times import from_micros, optional_datetime
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    LimitOption,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    escape_control,
    format_size,
    limited,
    open_workspace,
    print_json,
    print_left_out,
    print_table,
    print_warnings,
)
from moirae.config import Settings, load_settings_from_environment
from moirae.errors import MoiraeError, Unreachable, UsageError
from moirae.evaluation import CONTEXT_ROWS
from moirae.history import format_progress as words_of
from moirae.inspect import (
    DEAD_LETTER_COUNTERS,
    assess_health,
    collect_status,
    is_live_available,
    list_problems,
    sum_accounting,
)
from moirae.runtime import check_storage, measure_disk_space, open_storage
from moirae.runtime import describe_disk_problem as disk_problem

if TYPE_CHECKING:
    from archiver.delta import ChunkFiles, StreamTable

chunks_app = typer.Typer(help="The pieces of history.", no_args_is_help=True)
streams_app = typer.Typer(help="What comes in.", no_args_is_help=True)
dead_letters_app = typer.Typer(help="Lines that were not archived.", no_args_is_help=True)

# Seconds that `retry` waits for a running workspace.
_RETRY_TIMEOUT = 60.0
_WRONG = 10  # findings of one check that a table shows
_DEAD_LETTER_REASONS = ("malformed", "quarantined", "conflict", "expired")


@chunks_app.command("list")
def list_chunks(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, output: OutputOption = OutputFormat.TABLE
) -> None:
    """Chunks, oldest first: their time, their state and what they hold."""
    with open_workspace(workspace) as (settings, connection):
        kept = Catalog(connection).chunk_records()
    tables = _open_stream_tables(settings)
    rows = [
        _chunk_row(
            one,
            [
                table.files_by_chunk()[one.chunk.id]
                for table in tables
                if one.chunk.id in table.files_by_chunk()
            ],
        )
        for one in kept
    ]
    if output is OutputFormat.JSON:
        print_json(rows)
    else:
        print_table(
            list(rows[0]), [{**r, "bytes": format_size(r["bytes"])}.values() for r in rows], ""
        )


def _open_stream_tables(settings: Settings) -> list["StreamTable"]:
    from archiver.delta import StreamTable
    from moirae.config import stream_schema

    root = open_storage(settings)
    return [
        StreamTable(root, stream_schema(name, declared))
        for name, declared in settings.streams.items()
    ]


def _chunk_row(kept: ChunkRecord, held: Sequence["ChunkFiles"]) -> dict[str, Any]:
    return {
        "id": kept.chunk.id,
        "from": optional_datetime(kept.chunk.from_ts),
        "to": optional_datetime(kept.chunk.to_ts),
        "state": kept.chunk.state,
        "rows": sum(h.rows for h in held),
        "files": sum(h.file_count for h in held),
        "bytes": sum(h.bytes for h in held),
        "clustered": CLUSTER in kept.completed_versions,
        "version": kept.version,
    }


@chunks_app.command("show")
def show_chunk(
    chunk: Annotated[int, typer.Argument(help="Number of the chunk.")],
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """One chunk: what it holds of each stream, and what was done for it."""
    with open_workspace(workspace) as (settings, connection):
        kept = next(
            (one for one in Catalog(connection).chunk_records() if one.chunk.id == chunk), None
        )
    if kept is None:
        raise UsageError(f"no chunk {chunk}; `moirae chunks list` shows all")
    held = {
        table.schema.name: table.files_by_chunk().get(chunk)
        for table in _open_stream_tables(settings)
    }
    streams: list[dict[str, Any]] = [
        {
            "stream": n,
            "rows": h.rows,
            "files": h.file_count,
            "bytes": h.bytes,
            "oldest": from_micros(h.oldest),
            "newest": from_micros(h.newest),
        }
        for n, h in held.items()
        if h is not None
    ]
    row = _chunk_row(kept, [h for h in held.values() if h is not None])
    if output is OutputFormat.JSON:
        print_json({**row, "streams": streams, "done": kept.completed_versions})
        return
    print_table(list(row), [{**row, "bytes": format_size(row["bytes"])}.values()], "")
    print()
    columns = ["stream", "rows", "files", "bytes", "oldest", "newest"]
    print_table(
        columns,
        [{**s, "bytes": format_size(s["bytes"])}.values() for s in streams],
        "holds no rows",
    )
    print("\ndone: " + (", ".join(sorted(kept.completed_versions)) or "nothing yet"))


@streams_app.command("list")
def list_streams(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, output: OutputOption = OutputFormat.TABLE
) -> None:
    """Declared streams: what was read of each and became of it, what they hold, how far they lag behind the newest."""
    with open_workspace(workspace) as (settings, connection):
        found = collect_status(connection, open_storage(settings))["streams"]
    newest = max((s["newest"] for s in found.values() if s["newest"] is not None), default=None)
    rows: list[dict[str, Any]] = []
    for table in _open_stream_tables(settings):
        name, held = table.schema.name, list(table.files_by_chunk().values())
        known = found.get(name)
        account = known["accounting"] if known else sum_accounting([])
        last = known["newest"] if known else None
        rows.append(
            {
                "stream": name,
                "read": account["read"],
                "archived": account["archived"],
                "late": known["late"] if known else 0,
                "duplicates": account["duplicates"],
                **{reason: known[reason] if known else 0 for reason in DEAD_LETTER_COUNTERS},
                "forgotten": known["forgotten"] if known else 0,
                "rows": sum(h.rows for h in held),
                "files": sum(h.file_count for h in held),
                "bytes": sum(h.bytes for h in held),
                "newest": last,
                "lag": (newest - last).total_seconds()
                if newest is not None and last is not None
                else None,
            }
        )
    if output is OutputFormat.JSON:
        print_json(rows)
        return
    shown = [
        {
            **r,
            "bytes": format_size(r["bytes"]),
            "lag": None if r["lag"] is None else f"{r['lag']:,.0f} s",
        }
        for r in rows
    ]
    print_table(
        list(rows[0]) if rows else [], [r.values() for r in shown], "no streams are declared"
    )


@dead_letters_app.command("list")
def list_dead_letters(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    stream: Annotated[str | None, typer.Option("--stream", help="Only of this stream.")] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", help=f"Only for: {', '.join(_DEAD_LETTER_REASONS)}.")
    ] = None,
    limit: LimitOption = 50,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Refused lines, newest first, with source, line, reason and bytes."""
    if reason is not None and reason not in _DEAD_LETTER_REASONS:
        raise UsageError(f"no reason {reason!r}; there are {', '.join(_DEAD_LETTER_REASONS)}")
    with open_workspace(workspace) as (settings, connection):
        _check_stream(settings, connection, stream)
        values = {"stream": stream, "reason": reason, "limit": limit}
        rows, left_out = limited(connection, sql.load("catalog")["dead_letters"], values)
    for row in rows:
        row["raw_base64"] = base64.b64encode(row["raw"]).decode()
        row["raw"] = row["raw"].decode("utf-8", "backslashreplace")
    if output is OutputFormat.JSON:
        print_json(rows)
        print_left_out(left_out, len(rows), output)
        return
    names = ("id", "stream", "source", "line", "reason", "detail")
    shown = [(*(r[name] for name in names), escape_control(r["raw"])[:80]) for r in rows]
    print_table([*names, "raw"], shown, "no dead letters")
    print_left_out(left_out, len(rows), output)


@dead_letters_app.command("retry")
def retry_dead_letters(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="ID…", help="Ids, as `list` shows them.")
    ] = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    stream: Annotated[str | None, typer.Option("--stream", help="All of this stream.")] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", help=f"All for: {', '.join(_DEAD_LETTER_REASONS)}.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All there are.")] = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="Most lines to retry.")] = 100_000,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Have refused lines taken up again, when their cause is mended; exit 1 where any is refused again."""
    if reason is not None and reason not in _DEAD_LETTER_REASONS:
        raise UsageError(f"no reason {reason!r}; there are {', '.join(_DEAD_LETTER_REASONS)}")
    if not (ids or stream or reason or everything):
        raise UsageError("name ids, a --stream, a --reason, or --all")
    if ids and (stream or reason or everything):
        raise UsageError("name ids, or say which by --stream, --reason or --all, not both")
    named = [_parse_dead_letter_id(text) for text in ids or ()]
    with open_workspace(workspace) as (settings, connection):
        _check_stream(settings, connection, stream)
        catalog = Catalog(connection)
        asked = catalog.mark_for_retry(named, stream, reason, limit)
        none = [text for text, letter in zip(ids or (), named, strict=True) if letter not in asked]
        unknown = f"no dead letter {', '.join(none[:5])}; `moirae dead-letters list` shows them"
        if none and not asked:
            raise UsageError(unknown)
        if none:
            print(unknown, file=sys.stderr)
        running = is_live_available(connection)
        deadline = time.monotonic() + _RETRY_TIMEOUT
        while (
            running
            and catalog.count_pending_retries(list(settings.streams))
            and time.monotonic() < deadline
        ):
            time.sleep(0.2)
        waiting = catalog.count_pending_retries()
        refused = catalog.count_dead_letters(asked)
    if output is OutputFormat.JSON:
        print_json({"asked": len(asked), "waiting": waiting, "refused": refused})
    elif waiting:
        print(
            f"{waiting:,} lines are retried when the workspace runs (`moirae up`) and declares their streams"
        )
    else:
        again = f", {refused:,} refused again: see `moirae dead-letters list`" if refused else ""
        print(f"{len(asked) - refused:,} of {len(asked):,} lines taken{again}")
    raise typer.Exit(1 if refused else 0)


def _check_stream(settings: Settings, connection: Connection[Any], name: str | None) -> None:
    """A stream that is declared, or was when something of it was read."""
    if name is not None and name not in {*settings.streams, *Catalog(connection).stream_progress()}:
        raise UsageError(
            f"no stream {escape_control(name)!r}; there are {', '.join(settings.streams)}"
        )


def _parse_dead_letter_id(text: str) -> tuple[int, int]:
    unit, _, line = text.partition(":")
    if not (
        unit.isascii() and unit.isdigit() and line.isascii() and line.isdigit() and len(text) < 20
    ):
        raise UsageError(f"{text[:80]!r} is no id of a dead letter, such as 17:3")
    return int(unit), int(line)


def status(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, output: OutputOption = OutputFormat.TABLE
) -> None:
    """Whether all is well (exit code 0) or not (1), and what was read."""
    settings = load_settings_from_environment(workspace)
    disks = measure_disk_space(settings)
    try:
        with open_workspace(workspace) as (_, connection):
            found = collect_status(connection, open_storage(settings), disks)
    except MoiraeError as error:
        # A database that does not start because its disk is full says nothing of that.
        full = [disk_problem(disk) for disk in disks if disk.full]
        kind = Unreachable if isinstance(error, Unreachable) else MoiraeError
        raise kind("\n".join([str(error), *full])) from error
    problems = list_problems(found)
    print_warnings(settings.warnings)
    if output is OutputFormat.JSON:
        print_json(
            {
                **found,
                "problems": problems,
                "warnings": [str(warning) for warning in settings.warnings],
            }
        )
        raise typer.Exit(1 if problems else 0)
    print(
        "\n".join(f"NOT WELL: {problem}" for problem in problems)
        or f"ok: {assess_health(found)[1]}"
    )
    print()
    columns = ["stream", "read", "archived", "late", "duplicates", "dead letters", "newest"]
    print_table(
        columns,
        [_stream_row(n, s) for n, s in found["streams"].items()],
        "no streams have been read",
    )
    alerts = (
        ", ".join(f"{count:,} {name}" for name, count in sorted(found["alerts"].items())) or "none"
    )
    print(
        f"\nalerts: {alerts}\nevents: {found['events']['settled']:,} settled, {found['events']['detected']:,} detected"
    )
    print("chunks: " + ", ".join(f"{count:,} {name}" for name, count in found["chunks"].items()))
    recalls = (
        ", ".join(f"{count:,} {name}" for name, count in sorted(found["recalls"].items())) or "none"
    )
    print(f"recalls: {recalls}{_format_overload(found['recalls_waiting'])}")
    for rule, count in found["cut_contexts"].items():
        print(
            f"contexts of {rule}: {count:,} cut at {CONTEXT_ROWS:,} rows (see `moirae events show`)"
        )
    running = sum(rule["state"] == "running" for rule in found["rules"])
    print(f"rules:  {running} running of {len(found['rules'])}")
    for rule, past in found["past"].items():
        print(f"past of {rule}: {words_of(past)}")
    for stream in found["derived"]:
        print(
            f"derived stream {stream['stream']}: {stream['rows']:,} rows of {stream['chunks']} chunks archived"
        )
    for index in found["indexes"]:
        contexts = ", ".join(index["contexts"])
        print(
            f"index of {index['rule']} ({contexts}): {index['written']:,} of {index['events']:,} events written"
        )
    print()
    processes = [
        (
            p["role"],
            str(p["pid"]),
            p["state"],
            p["alive"],
            p["started_at"],
            (p["error"] or "").partition("\n")[0],
        )
        for p in found["processes"]
    ]
    print_table(
        ["process", "pid", "state", "alive", "started", "error"], processes, "no process has run"
    )
    raise typer.Exit(1 if problems else 0)


def _format_overload(found: dict[str, Any]) -> str:
    """What a storm does to recalls; nothing where they hardly wait."""
    if found["longest"] < 10:
        return ""
    words = (
        f"; more are asked than can be answered at once: {found['waiting']:,} wait, the first for"
    )
    return f"{words} {found['longest']:.0f} s, {found['with_answer']:,} of them with a first answer"


def _stream_row(name: str, found: dict[str, Any]) -> list[Any]:
    account = found["accounting"]
    counts = [
        account["read"],
        account["archived"],
        found["late"],
        account["duplicates"],
        account["dead_lettered"],
    ]
    return [name, *counts, found["newest"]]


def doctor(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, output: OutputOption = OutputFormat.TABLE
) -> None:
    """Hold the ledger against the tables, by ids: exit 1 where anything is wrong."""
    from moirae.inspect import run_checks
    from moirae.rules import find_unused_keys, read_rule_files

    with open_workspace(workspace) as (settings, connection):
        rules, _ = read_rule_files(settings.find_rule_files(), settings.table_names)
        print_warnings([*settings.warnings, *find_unused_keys(rules)])
        check_storage(settings)
        findings = run_checks(settings, connection)
    if output is OutputFormat.JSON:
        print_json([vars(finding) for finding in findings])
    else:
        rows = [
            ("FAIL" if f.wrong else "ok", f.check, _wrong(f.wrong) or f.figure) for f in findings
        ]
        print_table(["", "check", "found"], rows, "")
    raise typer.Exit(any(f.wrong for f in findings))


def _wrong(found: Sequence[str]) -> str:
    """What a check has found, as much as fits a table."""
    more = f"; … and {len(found) - _WRONG:,} more (use -o json)" if len(found) > _WRONG else ""
    return "; ".join(found[:_WRONG]) + more
