"""The files of a micro-batch, as Spark's file sources log them in the checkpoint of their query.

The data frame of the micro-batch has the same files, but to read them from it takes a job, 20 ms.
The format is that of Spark's `FileStreamSourceLog`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import orjson

from moirae.live.sources.files import DiscoveredFile, stat_files

_MAX_LOG_BYTES = 64 << 10
"""Of the end of a log that is read; each tenth one has all files of the last day and more."""
_VERSION = b"v1"
_SCHEME = "file://"

_LogEntry = dict[str, Any]
"""Of a file: `path`, a URI; `batchId`, its position in the log of its source."""


def find_batch_files(
    checkpoint: Path, batch: int, streams: Sequence[str]
) -> list[DiscoveredFile] | None:
    """The files of a micro-batch by stream, as they are now; None if the checkpoint does not tell.

    `streams`: of the query's sources, in their order.
    """
    try:
        ends = _read_positions(checkpoint, batch)
        starts = _read_positions(checkpoint, batch - 1) if batch else [-1] * len(ends)
        if not len(starts) == len(ends) == len(streams):
            return None
        discovered: list[DiscoveredFile] = []
        for source, stream in enumerate(streams):
            for position in range(starts[source] + 1, ends[source] + 1):
                paths = _read_log(checkpoint / "sources" / str(source), position)
                files = stat_files(stream, paths)
                if len(files) < len(paths):
                    return None
                discovered += files
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return discovered


def _read_positions(checkpoint: Path, batch: int) -> list[int]:
    """By source, the last position in its log that a micro-batch includes; -1: none."""
    content = (checkpoint / "offsets" / str(batch)).read_bytes()
    version, _, *offsets = content.splitlines()
    _require(version == _VERSION)
    return [-1 if offset == b"-" else orjson.loads(offset)["logOffset"] for offset in offsets]


def _read_log(folder: Path, position: int) -> list[Path]:
    """The files at one position of the log of a source."""
    log = folder / str(position)
    if not log.exists():
        log = folder / f"{position}.compact"
    with log.open("rb") as file:
        size = file.seek(0, 2)
        start = max(0, size - _MAX_LOG_BYTES)
        file.seek(start)
        first_line, *lines = file.read().splitlines()
    _require(start > 0 or first_line == _VERSION)
    entries: list[_LogEntry] = list(map(orjson.loads, lines))
    is_complete = start == 0 or (bool(entries) and entries[0]["batchId"] < position)
    _require(is_complete)
    return [_parse_uri(entry["path"]) for entry in entries if entry["batchId"] == position]


def _parse_uri(uri: str) -> Path:
    _require(uri.startswith(_SCHEME + "/"))
    return Path(unquote(uri.removeprefix(_SCHEME), errors="strict"))


def _require(condition: bool) -> None:
    """Raise `ValueError` unless the checkpoint is as expected."""
    if not condition:
        raise ValueError("unexpected content of a checkpoint")
