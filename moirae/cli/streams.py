"""`moirae streams`: inspect input streams."""

from collections.abc import Iterable
from typing import Any

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    format_size,
    print_json,
    print_table,
)
from moirae.cli.remote import RemoteTyper, open_services

app = RemoteTyper(help="Inspect input streams.", no_args_is_help=True)


@app.command("list")
def list_(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, output: OutputOption = OutputFormat.TABLE
) -> None:
    """List declared streams: records read, rows archived, and lag behind the newest stream."""
    from moirae.services.operations.archive import list_streams

    with open_services(workspace) as services:
        rows = list(map(vars, list_streams(services)))
    if output is OutputFormat.JSON:
        print_json(rows)
        return
    columns = list(rows[0]) if rows else []
    print_table(columns, map(_format_row, rows), "no streams are declared")


def _format_row(row: dict[str, Any]) -> Iterable[Any]:
    lag = None if row["lag"] is None else f"{row['lag']:,.0f} s"
    sizes = {name: format_size(row[name]) for name in ("bytes", "history_bytes")}
    return {**row, **sizes, "lag": lag}.values()
