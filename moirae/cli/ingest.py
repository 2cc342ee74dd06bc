"""`moirae ingest`: copy files or standard input into a stream."""

import re
import secrets
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer
from rich.console import Console

from archiver.errors import ArchiverError
from archiver.formats import (
    COMPRESSION_SUFFIXES,
    infer_format_name,
    strip_compression,
)
from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    format_count,
    format_size,
    print_json,
)
from moirae.cli.remote import open_remote, open_services
from moirae.config import Stream, load_settings_from_environment
from moirae.errors import MoiraeError, UsageError
from moirae.runtime import open_progress_bar
from moirae.runtime.storage import Landing, Landings, redact_file

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from moirae.services import RemoteWorkspace

_COPY_SIZE = 1 << 20  # bytes read at a time
_POLL_INTERVAL = 0.2  # seconds
_MAX_STEM_LENGTH = 60  # characters of a file name in the name of a batch
_STDIN = "-"
_SUFFIXES = re.compile(r"(\.(jsonl|ndjson|json|csv|parquet))?(\.gz|\.zst)?$")


class InputFormat(StrEnum):
    """Formats of input files."""

    JSONL = "jsonl"
    JSON = "json"
    CSV = "csv"
    PARQUET = "parquet"
    TEXT = "text"
    COMBINED = "combined"
    COMMON = "common"
    SYSLOG = "syslog"
    LOGFMT = "logfmt"
    KLOG = "klog"
    CRI = "cri"
    DOCKER = "docker"


def ingest(
    stream: Annotated[
        str, typer.Argument(help="Stream of the workspace; its source may be of any kind.")
    ],
    files: Annotated[
        list[str], typer.Argument(metavar="FILE…|-", help="Files, or - for standard input.")
    ],
    input_format: Annotated[
        InputFormat | None,
        typer.Option(
            "--format",
            help="Input format. Default: by the file's suffix, jsonl for standard input.",
        ),
    ] = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until a running workspace has archived all rows.")
    ] = False,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """Copy files into a stream.

    The data is durable when the command ends, and archived while `moirae up` runs. Dead letters do
    not change the exit code.
    """
    suffixes = [_batch_suffix(name, input_format) for name in files]
    with open_remote() as server:
        if server is None:
            batches = _copy_to_workspace(workspace, stream, files, suffixes)
        else:
            batches = _copy_to_server(server, stream, files, suffixes)
    accounting = None
    if wait:
        accounting = _await_archived(workspace, stream, batches)
    if output is OutputFormat.JSON:
        print_json({"stream": stream, "batches": batches, "accounting": accounting})
        return
    size = format_size(sum(batch["bytes"] for batch in batches))
    print(f"queued for {stream}: {format_count(len(batches), 'file')}, {size}")
    if accounting is not None:
        print(_format_accounting(accounting, stream))


def _format_accounting(accounting: Mapping[str, int], stream: str) -> str:
    text = (
        f"{accounting['read']:,} read, {accounting['archived']:,} archived, "
        f"{format_count(accounting['duplicates'], 'duplicate')}, "
        f"{format_count(accounting['dead_lettered'], 'dead letter')}"
    )
    if accounting["dead_lettered"]:
        text += f" (see `moirae dead-letters list --stream {stream}`)"
    return text


def _batch_suffix(name: str, input_format: InputFormat | None) -> str:
    """`.csv.gz`: format and compression of a file. Raises `UsageError`."""
    if name == _STDIN:
        return f".{input_format or InputFormat.JSONL}"
    if not Path(name).is_file():
        raise UsageError(f"{name}: no such file")
    compression = next((end for end in COMPRESSION_SUFFIXES if name.endswith(end)), "")
    if input_format is None and strip_compression(name).endswith(".json"):
        return f".json{compression}"  # lines, or documents if the stream declares them
    try:
        return f".{input_format or infer_format_name(name)}{compression}"
    except ValueError:
        raise UsageError(f"{name}: unknown suffix: add --format, such as --format csv") from None


def _copy_to_workspace(
    workspace: Path, stream: str, files: Sequence[str], suffixes: Sequence[str]
) -> list[dict[str, Any]]:
    from moirae.services.operations.archive import check_declared

    settings = load_settings_from_environment(workspace)
    check_declared(settings, stream)
    landing = Landings.of(settings).open(stream)
    if settings.streams[stream].redact:
        return _copy_redacted(landing, settings.streams[stream], files, suffixes)
    return _copy_to_landing(landing, files, suffixes)


def _copy_redacted(
    landing: Landing, declared: Stream, files: Sequence[str], suffixes: Sequence[str]
) -> list[dict[str, Any]]:
    """Copy each file as a batch without its secrets. Returns file, batch name and bytes of each."""
    batches: list[dict[str, Any]] = []
    for name, suffix in zip(files, suffixes, strict=True):
        try:
            content = sys.stdin.buffer.read() if name == _STDIN else Path(name).read_bytes()
            redacted, stored_suffix = redact_file(landing.stream, declared, suffix, content)
            batch = f"ingest-{_batch_stem(name)}-{secrets.token_hex(16)}"
            landing.write_batch(batch, stored_suffix, redacted)
        except OSError as error:
            reason = error.strerror or str(error)
            raise MoiraeError(f"{name}: cannot be ingested: {reason}") from error
        except (ArchiverError, ValueError) as error:  # Arrow's errors are ValueErrors
            raise MoiraeError(f"{name}: cannot be ingested: {error}") from error
        batches.append({"file": name, "batch": batch, "bytes": len(redacted)})
    return batches


def _copy_to_server(
    server: "RemoteWorkspace", stream: str, files: Sequence[str], suffixes: Sequence[str]
) -> list[dict[str, Any]]:
    """Send each file as a batch. Returns file, batch name and bytes of each."""
    batches: list[dict[str, Any]] = []
    for name, suffix in zip(files, suffixes, strict=True):
        with ExitStack() as stack:
            source: BinaryIO = sys.stdin.buffer
            if name != _STDIN:
                source = stack.enter_context(Path(name).open("rb"))
            sent = server.upload(stream, _batch_stem(name), suffix, source)
        batches.append({"file": name, **sent})
    return batches


def _copy_to_landing(
    landing: Landing, files: Sequence[str], suffixes: Sequence[str]
) -> list[dict[str, Any]]:
    """Copy each file as a batch. Returns file, batch name and bytes of each."""
    batches: list[dict[str, Any]] = []
    with open_progress_bar(Console(stderr=True)) as progress, ExitStack() as stack:
        for name, suffix in zip(files, suffixes, strict=True):
            source: BinaryIO = sys.stdin.buffer
            size = None
            if name != _STDIN:
                source = stack.enter_context(Path(name).open("rb"))
                size = Path(name).stat().st_size
            task = progress.add_task(name, total=size)
            batch = f"ingest-{_batch_stem(name)}-{secrets.token_hex(16)}"
            try:
                with landing.open_batch(batch, suffix) as file:
                    byte_count = _copy(source, file, progress, task)
            except OSError as error:
                raise MoiraeError(f"{name}: cannot be ingested: {error.strerror}") from error
            batches.append({"file": name, "batch": batch, "bytes": byte_count})
    return batches


def _copy(source: BinaryIO, target: BinaryIO, progress: "Progress", task: "TaskID") -> int:
    """Copy all bytes and show the progress of the task. Returns the number of bytes."""
    byte_count = 0
    while data := source.read(_COPY_SIZE):
        target.write(data)
        byte_count += len(data)
        progress.update(task, completed=byte_count)
    return byte_count


def _batch_stem(name: str) -> str:
    """The part of a batch name that identifies the file: dead letters show the batch."""
    stem = "stdin" if name == _STDIN else _SUFFIXES.sub("", Path(name).name)
    return re.sub(r"[^A-Za-z0-9_]+", "_", stem)[:_MAX_STEM_LENGTH]


def _await_archived(
    workspace: Path, stream: str, batches: Sequence[dict[str, Any]]
) -> dict[str, int]:
    """The accounting of the batches' records, once all batches are archived."""
    from moirae.services.operations.archive import BatchNames, show_batch_progress

    body = BatchNames(batches=[batch["batch"] for batch in batches])
    with open_services(workspace) as services:
        while True:
            progress = show_batch_progress(services, stream, body)
            if progress.archived == len(batches):
                return dict(progress.accounting)
            if not progress.live:
                raise MoiraeError(
                    "rows are queued, but no live process runs to archive them: start `moirae up`"
                )
            time.sleep(_POLL_INTERVAL)
