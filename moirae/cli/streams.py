"""`moirae streams`: inspect input streams."""

from collections.abc import Iterable
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any

import typer

from moirae.cli.chunks import open_stream_tables
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
from moirae.runtime import open_storage

if TYPE_CHECKING:
    from archiver.delta import StreamTable

app = typer.Typer(help="Inspect input streams.", no_args_is_help=True)


@app.command("list")
def list_(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, output: OutputOption = OutputFormat.TABLE
) -> None:
    """List declared streams: records read, rows archived, and lag behind the newest stream."""
    from moirae.inspect import collect_status

    with open_workspace(workspace) as (settings, connection):
        progress = collect_status(connection, open_storage(settings))["streams"]
    rows = []
    for table in open_stream_tables(settings):
        row = _make_row(table, progress.get(table.schema.name))
        row["history_bytes"] = table.history_bytes(settings.archive_history.total_seconds())
        rows.append(row)
    times = filter(None, map(itemgetter("newest"), progress.values()))
    newest = max(times, default=None)
    for row in rows:
        row["lag"] = None
        if row["newest"] is not None:
            row["lag"] = (newest - row["newest"]).total_seconds()
    if output is OutputFormat.JSON:
        print_json(rows)
        return
    columns = list(rows[0]) if rows else []
    print_table(columns, map(_format_row, rows), "no streams are declared")


def _make_row(table: "StreamTable", progress: dict[str, Any] | None) -> dict[str, Any]:
    """Counts of a stream. `progress`: its entry in the status, None where nothing was read yet."""
    from moirae.inspect import DEAD_LETTER_COUNTERS, sum_accounting

    counters = ("late", *DEAD_LETTER_COUNTERS, "deleted")
    if progress is None:
        progress = {"accounting": sum_accounting([]), "newest": None, **dict.fromkeys(counters, 0)}
    files = table.files_by_chunk().values()
    return {
        "stream": table.schema.name,
        "read": progress["accounting"]["read"],
        "archived": progress["accounting"]["archived"],
        "late": progress["late"],
        "duplicates": progress["accounting"]["duplicates"],
        **{reason: progress[reason] for reason in DEAD_LETTER_COUNTERS},
        "deleted": progress["deleted"],
        "rows": sum(map(attrgetter("rows"), files)),
        "files": sum(map(attrgetter("file_count"), files)),
        "bytes": sum(map(attrgetter("bytes"), files)),
        "newest": progress["newest"],
    }


def _format_row(row: dict[str, Any]) -> Iterable[Any]:
    lag = None if row["lag"] is None else f"{row['lag']:,.0f} s"
    sizes = {name: format_size(row[name]) for name in ("bytes", "history_bytes")}
    return {**row, **sizes, "lag": lag}.values()
