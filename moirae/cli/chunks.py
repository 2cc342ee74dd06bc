"""`moirae chunks`: inspect the chunks of the archive."""

from collections.abc import Iterable
from itertools import starmap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    format_size,
    open_workspace,
    print_json,
    print_table,
)
from moirae.config import Settings
from moirae.errors import UsageError
from moirae.runtime import open_storage

if TYPE_CHECKING:
    from archiver.chunks import ChunkRecord
    from archiver.delta import ChunkFiles, StreamTable

app = typer.Typer(help="Inspect the chunks of the archive.", no_args_is_help=True)

_STREAM_COLUMNS = ("stream", "rows", "files", "bytes", "oldest", "newest")


@app.command("list")
def list_(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, output: OutputOption = OutputFormat.TABLE
) -> None:
    """List chunks with their time range, state and size, oldest first."""
    from archiver.ingest import Catalog

    with open_workspace(workspace) as (settings, connection):
        records = Catalog(connection).chunk_records()
    files_by_stream = [table.files_by_chunk() for table in open_stream_tables(settings)]
    rows = []
    for record in records:
        chunk_files = (files.get(record.chunk.id) for files in files_by_stream)
        rows.append(_make_row(record, filter(None, chunk_files)))
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
    from archiver.ingest import Catalog

    with open_workspace(workspace) as (settings, connection):
        records = Catalog(connection).chunk_records()
    record = next((record for record in records if record.chunk.id == chunk), None)
    if record is None:
        raise UsageError(f"no chunk {chunk}: `moirae chunks list` shows all chunks")
    files_by_stream = {}
    for table in open_stream_tables(settings):
        files = table.files_by_chunk().get(chunk)
        if files is not None:
            files_by_stream[table.schema.name] = files
    row = _make_row(record, files_by_stream.values())
    streams = list(starmap(_make_stream_row, files_by_stream.items()))
    if output is OutputFormat.JSON:
        print_json({**row, "streams": streams, "maintenance": record.completed_versions})
        return
    print_table(list(row), [_format_row(row)], "")
    print()
    print_table(_STREAM_COLUMNS, map(_format_row, streams), "no rows")
    print("\nmaintenance: " + (", ".join(sorted(record.completed_versions)) or "none yet"))


def open_stream_tables(settings: Settings) -> list["StreamTable"]:
    """The tables of the declared streams."""
    from archiver.delta import StreamTable
    from moirae.config import stream_schema

    storage = open_storage(settings)
    return [
        StreamTable(storage, stream_schema(name, stream))
        for name, stream in settings.streams.items()
    ]


def _make_row(record: "ChunkRecord", files_of_streams: Iterable["ChunkFiles"]) -> dict[str, Any]:
    from archiver.times import optional_datetime

    row_count = 0
    file_count = 0
    byte_count = 0
    for files in files_of_streams:
        row_count += files.rows
        file_count += files.file_count
        byte_count += files.bytes
    return {
        "id": record.chunk.id,
        "from": optional_datetime(record.chunk.from_ts),
        "to": optional_datetime(record.chunk.to_ts),
        "state": record.chunk.state,
        "rows": row_count,
        "files": file_count,
        "bytes": byte_count,
        "clustered": record.is_clustered,
        "version": record.version,
    }


def _make_stream_row(stream: str, files: "ChunkFiles") -> dict[str, Any]:
    from archiver.times import from_micros

    return {
        "stream": stream,
        "rows": files.rows,
        "files": files.file_count,
        "bytes": files.bytes,
        "oldest": from_micros(files.oldest),
        "newest": from_micros(files.newest),
    }


def _format_row(row: dict[str, Any]) -> Iterable[Any]:
    return {**row, "bytes": format_size(row["bytes"])}.values()
