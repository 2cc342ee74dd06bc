"""`moirae archive erase`: erase rows with all that follows from them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from moirae.cli.alerts import parse_moment
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    expand_option_groups,
    open_workspace,
    print_json,
)
from moirae.errors import UsageError
from moirae.runtime.storage import check_generation, check_storage

if TYPE_CHECKING:
    from moirae.erasure import ErasureChoice, ErasureCondition
    from sql.archive import ErasureRow


@dataclass(frozen=True)
class _Rows:
    """Which rows are erased."""

    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            metavar="CONDITION",
            help="SQL condition over the columns of a stream, such as \"user = 'x'\": comparisons with "
            "constants, AND, OR, NOT, IN, BETWEEN, LIKE, IS NULL.",
        ),
    ] = None
    streams: Annotated[
        list[str] | None,
        typer.Option(
            "--stream",
            metavar="NAME",
            help="Erase rows of this stream. May be repeated. Default: all streams with these columns.",
        ),
    ] = None
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="Erase only rows from this event time on."),
    ] = None
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TIME", help="Erase only rows before this event time."),
    ] = None


@expand_option_groups
def erase(
    rows: _Rows,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be erased.")
    ] = False,
    goes_on: Annotated[
        bool, typer.Option("--continue", help="Finish erasures that were interrupted.")
    ] = False,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Erase rows for good, with all that follows from them: events, contexts, answers, messages.

    The workspace may run meanwhile; its processes, but not the server, are started again. An
    interrupted erasure is finished by the next one. Copies that Moirae cannot erase are listed.
    """
    if (rows.where is None) != goes_on:
        raise UsageError("give either --where or --continue")
    condition = None if rows.where is None else _parse(rows.where, rows.since, rows.until)
    from moirae.backup import hold_backup_lock
    from moirae.erasure import Eraser
    from moirae.runtime import connect_database

    with open_workspace(workspace) as (settings, connection):
        check_storage(settings)
        check_generation(settings, connection)
        with connect_database(settings, "erasure lock") as lock, _report_steps() as report:
            hold_backup_lock(lock)
            eraser = Eraser(settings, connection, report)
            done: list[ErasureRow] = []
            if not dry_run:
                done = [eraser.finish(erasure.id) for erasure in eraser.list_unfinished()]
            choice = None
            if condition is not None:
                choice = eraser.choose(condition, rows.streams or [])
                if not dry_run and (choice.row_count or choice.values):
                    done.append(eraser.finish(eraser.start(condition, choice)))
    _print(choice, done, dry_run=dry_run, output=output)


def _parse(where: str, since: str | None, until: str | None) -> "ErasureCondition":
    from archiver.times import optional_micros
    from moirae.erasure import ErasureCondition

    first, end = parse_moment("--since", since), parse_moment("--until", until)
    return ErasureCondition(where, optional_micros(first), optional_micros(end))


@contextmanager
def _report_steps() -> Iterator[Callable[[str], object]]:
    """On a terminal: what is being done."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda step: None
        return
    with console.status("erasing") as status:
        yield lambda step: status.update(step)


def _print(
    choice: "ErasureChoice | None", done: "list[ErasureRow]", *, dry_run: bool, output: OutputFormat
) -> None:
    document: dict[str, Any] = {"dry_run": dry_run}
    if choice is not None:
        document |= {
            "rows": {name: len(stream_rows) for name, stream_rows in choice.rows.items()},
            "chunks": {
                name: {str(chunk): count for chunk, count in sorted(stream_rows.chunks.items())}
                for name, stream_rows in choice.rows.items()
            },
            "values": len(choice.values),
            "declared_values": len(choice.declared),
            "events": len(choice.events),
        }
    document["erasures"] = [{"id": str(row.id), "rows": row.rows, **row.effects} for row in done]
    if output is OutputFormat.JSON:
        print_json(document)
        return
    _print_text(document)


def _print_text(document: dict[str, Any]) -> None:
    for stream, count in document.get("rows", {}).items():
        chunks = len(document["chunks"][stream])
        print(f"stream {stream}: {count:,} rows in {chunks:,} chunks")
    if "rows" in document:
        print(
            f"{document['values']:,} values that no other row has, {document['events']:,} events of "
            "these rows"
        )
        if document["declared_values"]:
            print(
                f"{document['declared_values']:,} values stay in other records: the workspace file or a "
                "rule has them"
            )
    if document["dry_run"]:
        print("Nothing was changed: omit --dry-run to erase.")
        return
    if not document["erasures"]:
        print("nothing to erase")
    for erasure in document["erasures"]:
        print(f"erasure {erasure['id']}: {erasure['rows']:,} rows, {erasure['events']:,} events")
        for name, count in sorted(erasure["changed"].items()):
            print(f"  {name}: {count:,}")
        print("These may hold it still, and are yours to erase:")
        for holder in erasure["places"]:
            print(f"  {holder}")
