"""History of the simulated testbed as input files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import NamedTuple

from moirae.demo.testbed import STREAMS, StreamName, StreamRow, Testbed


class HistoryFile(NamedTuple):
    """A complete file of one stream and day (UTC)."""

    stream: StreamName
    day: date
    path: Path
    rows: int  # number of rows


def write_history(
    testbed: Testbed, directory: Path, streams: Iterable[StreamName] = STREAMS
) -> Iterator[HistoryFile]:
    """Write history as ``<stream>/<day>.jsonl``, all streams of a day before the next day.

    Yields each file after it is written; a file has its name only when it is complete.
    """
    streams = list(streams)
    histories = [testbed.history(stream) for stream in streams]
    for batches in zip(*histories, strict=True):
        for stream, (day, rows) in zip(streams, batches, strict=True):
            path = directory / stream / f"{day}.jsonl"
            write_rows(path, rows)
            yield HistoryFile(stream, day, path, len(rows))


def write_rows(path: Path, rows: Iterable[StreamRow]) -> None:
    """Write rows as JSON lines. The file has a hidden name until it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    encoder = json.JSONEncoder(separators=(",", ":"))
    unfinished = path.with_name(f".{path.name}")
    with unfinished.open("w", encoding="utf-8") as file:
        for row in rows:
            file.write(encoder.encode(row) + "\n")
    unfinished.replace(path)
