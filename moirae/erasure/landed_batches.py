"""Accepted batches that are not archived yet: lines with an erased value are emptied.

An empty line is no record, and the numbers of the other lines stay. Batches of other forms stay:
their rows are archived next, and erased by another run.
"""

import gzip
import io
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from moirae.erasure.values import ErasedValues

_LINE_SUFFIXES = (
    ".jsonl",
    ".ndjson",
    ".csv",
    ".tsv",
    ".log",
    ".txt",
    ".logfmt",
    ".ltsv",
    ".syslog",
)
_FOLDERS = ("landing", "backup")


@dataclass
class BatchChanges:
    """`lines`: number of emptied ones. `other`: names of batches that are not files of lines."""

    lines: int = 0
    other: list[str] = field(default_factory=list)


def erase_from_batches(home: Path, values: ErasedValues) -> BatchChanges:
    """Empty lines of the batches below the home, and of copies for a backup."""
    changes = BatchChanges()
    for path in list(_list_batches(home)):
        with suppress(FileNotFoundError):
            _erase_from_batch(path, values, changes)
    return changes


def _list_batches(home: Path) -> Iterator[Path]:
    for name in _FOLDERS:
        for folder, _, names in os.walk(home / name):
            for file_name in names:
                yield Path(folder) / file_name


def _erase_from_batch(path: Path, values: ErasedValues, changes: BatchChanges) -> None:
    suffixes = path.suffixes
    is_compressed = suffixes[-1:] == [".gz"]
    if is_compressed:
        suffixes.pop()
    if suffixes[-1:] == [] or suffixes[-1] not in _LINE_SUFFIXES:
        changes.other.append(str(path))
        return
    content = path.read_bytes()
    if is_compressed:
        content = gzip.decompress(content)
    lines = io.BytesIO(content).readlines()  # a carriage return alone ends no record
    emptied = 0
    for number, line in enumerate(lines):
        if values.search_bytes(line):
            lines[number] = b"\n"
            emptied += 1
    if emptied:
        content = b"".join(lines)
        _replace(path, gzip.compress(content) if is_compressed else content)
        changes.lines += emptied


def _replace(path: Path, content: bytes) -> None:
    """Replace a file; its modification time, which is its place in the order, stays."""
    stat = path.stat()
    written = path.with_name(f".{path.name}.erasing")
    with written.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.utime(written, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    written.replace(path)
