"""`moirae archive`: maintain the files of the archive."""

from typing import Any

import typer
from rich.console import Console
from rich.filesize import decimal

from moirae.cli.erase import erase
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    open_workspace,
    print_json,
)
from moirae.runtime import open_progress_bar
from moirae.runtime.storage import (
    archived_streams,
    check_generation,
    check_storage,
    open_storage,
)

app = typer.Typer(help="Maintain the files of the archive.")
app.command()(erase)

# Of closed chunks whose files stay.
_STORED_STATES = ("recent", "old")


@app.callback()
def main() -> None:
    """Maintain the files of the archive."""


@app.command()
def compact(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, output: OutputOption = OutputFormat.TABLE
) -> None:
    """Rewrite files of closed chunks that earlier versions wrote, in less space.

    The workspace may run meanwhile; its live process does the same when it has nothing else to do.
    May be interrupted and run again: what is done is not repeated.
    """
    from archiver.chunks import Compaction
    from archiver.delta import StreamTable
    from archiver.ingest import Catalog

    with open_workspace(workspace) as (settings, connection):
        check_storage(settings)
        check_generation(settings, connection)
        root = open_storage(settings)
        catalog = Catalog(connection)
        tables = [
            StreamTable(root, schema)
            for schema in archived_streams(settings, connection)
            if StreamTable.exists(root, schema.table_name)
        ]
        compaction = Compaction(tables, catalog.settled_places)
        closed = {chunk.id for chunk in catalog.chunks() if chunk.state in _STORED_STATES}
        steps = compaction.plan(closed)
        saved = 0
        with open_progress_bar(Console(stderr=True)) as progress:
            bar = progress.add_task("Chunks rewritten", total=len(steps))
            for step in steps:
                saved += compaction.run(step)
                progress.advance(bar)
    result: dict[str, Any] = {
        "chunks": len(steps),
        "bytes_before": sum(step.bytes for step in steps),
        "bytes_saved": saved,
    }
    if output is OutputFormat.JSON:
        print_json(result)
    elif steps:
        print(f"{len(steps):,} chunks rewritten: {decimal(saved)} less")
        print("The files before are deleted after `archive_history`.")
    else:
        print("nothing to rewrite")
