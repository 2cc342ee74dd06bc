"""The files of a micro-batch, as Spark's file sources log them in the checkpoint of their query.

The data frame of the micro-batch has the same files, except empty ones, but to read them from it
takes a job, 20 ms. The format is that of Spark's `FileStreamSourceLog`.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote

import orjson

from moirae.live.sources.files import DiscoveredFile, stat_files
from moirae.live.sources.queries.checkpoint import VERSION, read_offsets

_FIRST_READ = 64 << 10
"""Bytes of the end of a compacted log that are read first: it has the files of a day and more."""
_SCHEME = "file://"

_LogEntry = dict[str, Any]
"""Of a file: `path`, a URI; `batchId`, its position in the log of its source."""


def read_batch_files(
    checkpoint: Path, batch: int, streams: Sequence[str]
) -> list[DiscoveredFile] | None:
    """The files of a micro-batch by stream, as they are now.

    `streams`: of the query's sources, in their order. None if the checkpoint has another format or
    lacks the batch, or if a file no longer exists.
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
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return discovered


def _read_positions(checkpoint: Path, batch: int) -> list[int]:
    """By source, the last position in its log that a micro-batch includes; -1: none."""
    positions: list[int] = []
    for offset in read_offsets(checkpoint, batch):
        positions.append(-1 if offset == "-" else orjson.loads(offset)["logOffset"])
    return positions


def _read_log(folder: Path, position: int) -> list[Path]:
    """The files at one position of the log of a source."""
    log = folder / str(position)
    if log.exists():
        entries = _parse_entries(log.read_bytes().splitlines())
    else:
        # The entries of all positions until this one, in order.
        with (folder / f"{position}.compact").open("rb") as file:
            entries = next(
                entries
                for entries, is_complete in _read_ends(file)
                if is_complete or entries[0]["batchId"] < position
            )
    return [_parse_uri(entry["path"]) for entry in entries if entry["batchId"] == position]


def _read_ends(file: BinaryIO) -> Iterator[tuple[list[_LogEntry], bool]]:
    """Longer and longer ends of a log, and whether it is the whole log."""
    size = file.seek(0, 2)
    length = _FIRST_READ
    while length < size:
        file.seek(-length, 2)
        _, *lines = file.read().splitlines()
        if lines:
            yield list(map(orjson.loads, lines)), False
        length *= 4
    file.seek(0)
    yield _parse_entries(file.read().splitlines()), True


def _parse_entries(lines: Sequence[bytes]) -> list[_LogEntry]:
    """The entries of a whole log. Raises `ValueError` for another version."""
    version, *entries = lines
    if version != VERSION.encode():
        raise ValueError(f"unsupported version of the source log: {version!r}")
    return list(map(orjson.loads, entries))


def _parse_uri(uri: str) -> Path:
    if not uri.startswith(_SCHEME + "/"):
        raise ValueError(f"not a local path: {uri}")
    return Path(unquote(uri.removeprefix(_SCHEME), errors="strict"))
