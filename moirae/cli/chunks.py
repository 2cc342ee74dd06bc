"""`moirae chunks`: inspect the chunks of the archive."""

import sys
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    format_size,
    print_json,
    print_table,
)
from moirae.cli.pages import collect_rows, make_query
from moirae.cli.remote import RemoteTyper, open_services

app = RemoteTyper(help="Inspect the chunks of the archive.", no_args_is_help=True)

_SIZES = ("bytes", "columns", "place")
_STREAM_COLUMNS = ("stream", "rows", "files", "bytes", "oldest", "newest")


@app.command("list")
def list_(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, output: OutputOption = OutputFormat.TABLE
) -> None:
    """List chunks with their time range, state and size, oldest first."""
    from moirae.services.operations.archive import ChunkQuery, list_chunks

    with open_services(workspace) as services:
        query = make_query(ChunkQuery)
        rows, _ = collect_rows(services, list_chunks, query, "chunks", sys.maxsize)
    if output is OutputFormat.JSON:
        print_json(rows)
    else:
        print_table(list(rows[0]), map(_format_row, rows), "no chunks")


@app.command()
def show(
    chunk: Annotated[int, typer.Argument(help="Number of the chunk.")],
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show a chunk: its rows of each stream and its completed maintenance."""
    from moirae.services.operations.archive import show_chunk

    with open_services(workspace) as services:
        details = show_chunk(services, chunk)
    row = details.chunk
    streams = list(map(vars, details.streams))
    if output is OutputFormat.JSON:
        print_json({**row, "streams": streams, "maintenance": details.maintenance})
        return
    print_table(list(row), [_format_row(row)], "")
    print()
    print_table(_STREAM_COLUMNS, map(_format_row, streams), "no rows")
    print("\nmaintenance: " + (", ".join(sorted(details.maintenance)) or "none yet"))


def _format_row(row: Mapping[str, Any]) -> Iterable[Any]:
    sizes: dict[str, str] = {}
    for name in _SIZES:
        if name in row:
            sizes[name] = "" if row[name] is None else format_size(row[name])
    return {**row, **sizes}.values()
