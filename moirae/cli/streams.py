"""`moirae streams`: inspect input streams, and what was lost of them."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    print_yaml,
    to_seconds,
)
from moirae.cli.pages import collect_rows, make_query
from moirae.cli.remote import RemoteTyper, open_services
from moirae.config import load_settings_from_environment
from moirae.errors import UsageError

if TYPE_CHECKING:
    from moirae.inspect import ProposedStream, StreamSample

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


@app.command(local=True)
def infer(
    files: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Files of the stream.")],
    limit: Annotated[int, typer.Option("--limit", help="Rows to show.", min=0)] = 5,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Propose the declaration of a stream from files, and show how it would read them."""
    from moirae.config import Stream
    from moirae.inspect import propose_stream, read_sample

    try:
        proposed = propose_stream(files)
    except (ValueError, OSError) as error:
        raise UsageError(str(error)) from error
    if proposed.is_relation:
        _print_relation(proposed, output)
        return
    declared = Stream.model_validate(proposed.declaration)
    sample = read_sample("sample", declared, files[0], declared.source.record_format, limit)
    if output is OutputFormat.JSON:
        questions = list(proposed.open_questions)
        print_json({"stream": proposed.declaration, "open": questions, **_sample_json(sample)})
        return
    for question in proposed.open_questions:
        print(f"# not told by the sample: {question}")
    print_yaml({"streams": {"NAME": proposed.declaration}})
    _print_sample(sample)


def _print_relation(proposed: "ProposedStream", output: OutputFormat) -> None:
    if output is OutputFormat.JSON:
        print_json({"relation": proposed.declaration, "open": list(proposed.open_questions)})
        return
    for question in proposed.open_questions:
        print(f"# not told by the sample: {question}")
    print_yaml({"relations": {"NAME": proposed.declaration}})


@app.command("test", local=True)
def show_sample(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="Name of the stream.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file as the stream reads it.")],
    limit: Annotated[int, typer.Option("--limit", help="Rows and records to show.", min=0)] = 20,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show the rows and dead letters of a file, without archiving it."""
    from moirae.inspect import read_sample
    from moirae.services.operations.archive import check_declared

    settings = load_settings_from_environment(workspace)
    check_declared(settings, stream)
    if not file.is_file():
        raise UsageError(f"{file}: no such file")
    declared = settings.streams[stream]
    sample = read_sample(stream, declared, file, declared.source.record_format, limit)
    if output is OutputFormat.JSON:
        print_json(_sample_json(sample))
        return
    _print_sample(sample)


def _sample_json(sample: "StreamSample") -> dict[str, Any]:
    return {
        "rows": sample.rows,
        "refused": [vars(record) for record in sample.refused],
        "row_count": sample.row_count,
        "refused_count": sample.refused_count,
    }


def _print_sample(sample: "StreamSample") -> None:
    print(f"\n{sample.row_count:,} rows, {sample.refused_count:,} refused")
    if sample.rows:
        print_table(sample.columns, (list(row.values()) for row in sample.rows), "")
    if sample.refused:
        refused = (list(vars(record).values()) for record in sample.refused)
        print_table(["line", "reason", "record"], refused, "")


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
def records(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="Name of the stream.")],
    limit: Annotated[int, typer.Option("--limit", help="Records to show.", min=1, max=100)] = 20,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Show the archived records with the newest event times."""
    from moirae.services.operations.stream_records import RecordQuery, list_records

    with open_services(workspace) as services:
        newest = list_records(services, stream, RecordQuery(limit=limit))
    if output is OutputFormat.JSON:
        print_json(vars(newest))
        return
    rows = ([record.get(name) for name in newest.columns] for record in newest.records)
    print_table(newest.columns, rows, "no records are archived")


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
