"""`ingest`: files or standard input into a stream."""

import re
import secrets
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer
from rich.console import Console
from rich.progress import Progress

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    format_size,
    open_workspace,
    print_json,
)
from moirae.config import infer_format, load_settings_from_environment
from moirae.errors import MoiraeError, UsageError
from moirae.runtime import LandingFolder

_COPY_BYTES = 1 << 20


class InputFormat(StrEnum):
    """How rows are written."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"


def ingest(
    stream: Annotated[str, typer.Argument(help="A stream of the workspace, whatever its source.")],
    files: Annotated[
        list[str], typer.Argument(metavar="FILE…|-", help="Files; - is standard input.")
    ],
    form: Annotated[
        InputFormat | None,
        typer.Option("--format", help="Absent: as a file's suffix tells; - is jsonl."),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Until all is archived, by a workspace that runs.")
    ] = False,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Hand files over to a stream: durable when this ends, archived by `moirae up`, now or when it next runs."""
    settings = load_settings_from_environment(workspace)
    if stream not in settings.streams:
        raise UsageError(f"no stream {stream!r}; there are {', '.join(settings.streams) or 'none'}")
    suffixes = [_batch_suffix(name, form) for name in files]
    landing = LandingFolder(settings.home, stream)
    batches = _copy_to_landing(landing, files, suffixes)
    accounts = _await_archived(workspace, stream, batches) if wait else None
    if output is OutputFormat.JSON:
        print_json({"stream": stream, "batches": batches, "accounting": accounts})
        return
    total = format_size(sum(batch["bytes"] for batch in batches))
    print(
        f"{len(batches)} {'batch' if len(batches) == 1 else 'batches'}, {total}, handed over to {stream}"
    )
    if accounts is not None:
        print(", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in accounts.items()))


def _batch_suffix(name: str, form: InputFormat | None) -> str:
    if name == "-":
        return f".{form or InputFormat.JSONL}"
    if not Path(name).is_file():
        raise UsageError(f"no such file: {name}")
    try:
        kind = form or infer_format(name)
    except ValueError:
        raise UsageError(
            f"{name}: its suffix does not tell its format; add --format jsonl, csv or parquet"
        ) from None
    return f".{kind}" + (".gz" if name.endswith(".gz") else "")


def _copy_to_landing(
    landing: LandingFolder, files: Sequence[str], suffixes: Sequence[str]
) -> list[dict[str, Any]]:
    batches: list[dict[str, Any]] = []
    shown = Progress(console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty())
    with shown, ExitStack() as stack:
        for name, suffix in zip(files, suffixes, strict=True):
            source: BinaryIO = (
                sys.stdin.buffer if name == "-" else stack.enter_context(Path(name).open("rb"))
            )
            task = shown.add_task(name, total=None if name == "-" else Path(name).stat().st_size)
            batch = f"ingest-{_batch_stem(name)}-{secrets.token_hex(16)}"
            copied = 0
            try:
                with landing.open_batch(batch, suffix) as file:
                    while piece := source.read(_COPY_BYTES):
                        file.write(piece)
                        copied += len(piece)
                        shown.update(task, completed=copied)
            except OSError as error:
                raise MoiraeError(f"{name} is not handed over: {error.strerror}") from error
            batches.append({"file": name, "batch": batch, "bytes": copied})
    return batches


def _batch_stem(name: str) -> str:
    """What of a file's name tells in a batch's which file it was: dead letters name the batch."""
    stem = (
        "stdin"
        if name == "-"
        else re.sub(r"(\.(jsonl|ndjson|json|csv|parquet))?(\.gz)?$", "", Path(name).name)
    )
    return re.sub(r"[^A-Za-z0-9_]+", "_", stem)[:60]


def _await_archived(
    workspace: Path, stream: str, batches: Sequence[dict[str, Any]]
) -> dict[str, int]:
    """What became of the batches' records, when all are archived."""
    from archiver.ingest import Catalog
    from moirae.inspect import is_live_available, sum_accounting

    names = [batch["batch"] for batch in batches]
    with open_workspace(workspace) as (_, connection):
        catalog, done = Catalog(connection), dict[str, dict[str, Any]]()
        while True:
            done |= catalog.unit_counters(stream, [name for name in names if name not in done])
            if len(done) == len(names):
                return sum_accounting(list(done.values()))
            if not is_live_available(connection):
                raise MoiraeError(
                    "all is handed over, but nothing runs here that could archive it: `moirae up`"
                )
            time.sleep(0.2)
