"""`moirae streams`: inspect input streams, and what was lost of them."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    LimitOption,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    format_size,
    print_json,
    print_omitted_count,
    print_table,
    to_seconds,
)
from moirae.cli.pages import collect_rows, make_query
from moirae.cli.remote import RemoteTyper, open_services

app = RemoteTyper(help="Inspect input streams.", no_args_is_help=True)

_LOSS_COLUMNS = (
    "stream",
    "topic",
    "partition",
    "first offset",
    "last offset",
    "reason",
    "noticed",
    "acknowledged",
)


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


@app.command()
def losses(
    stream: Annotated[
        str | None, typer.Argument(metavar="STREAM", help="Only losses of this stream.")
    ] = None,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    limit: LimitOption = 50,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List records of topics that were lost before they were read, newest first."""
    from moirae.services.operations.lost_records import LostRecordsQuery, list_lost_records

    query = make_query(LostRecordsQuery, stream=stream)
    with open_services(workspace) as services:
        rows, omitted = collect_rows(services, list_lost_records, query, "losses", limit)
    if output is OutputFormat.JSON:
        print_json(rows)
    else:
        print_table(_LOSS_COLUMNS, map(_format_loss, rows), "no records were lost")
    print_omitted_count(omitted, len(rows), output)


@app.command()
def acknowledge(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="Name of the stream.")],
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Acknowledge that records of a stream were lost: `status` no longer reports them."""
    from moirae.services.operations.lost_records import acknowledge_losses

    with open_services(workspace) as services:
        acknowledged = acknowledge_losses(services, stream)
    if output is OutputFormat.JSON:
        print_json(acknowledged)
    else:
        print(f"{len(acknowledged):,} losses of stream {stream} acknowledged")


def _format_loss(loss: Any) -> Iterable[Any]:
    return [
        loss["stream"],
        loss["topic"],
        loss["partition"],
        loss["first_offset"],
        "unknown" if loss["last_offset"] is None else loss["last_offset"],
        loss["reason"],
        to_seconds(loss["noticed_at"]),
        to_seconds(loss["acknowledged_at"]),
    ]


def _format_row(row: dict[str, Any]) -> Iterable[Any]:
    lag = None if row["lag"] is None else f"{row['lag']:,.0f} s"
    sizes = {name: format_size(row[name]) for name in ("bytes", "history_bytes")}
    return {**row, **sizes, "lag": lag}.values()
