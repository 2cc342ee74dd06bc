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
from pathlib import Path, PurePosixPath

from moirae.erasure.values import ErasedValues
from moirae.runtime.storage import Landings

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
_UNFINISHED = ".erasing"  # suffix


@dataclass
class BatchChanges:
    """`lines`: number of emptied ones. `other`: names of batches that are not files of lines."""

    lines: int = 0
    other: list[str] = field(default_factory=list)


def erase_from_batches(landings: Landings, values: ErasedValues) -> BatchChanges:
    """Empty lines of the batches below the home and in object storage, and of copies for a backup.

    Raises `StorageFailed` and `OSError`.
    """
    changes = BatchChanges()
    for path in list(_list_batches(landings.home)):
        if _is_of_lines(path, changes):
            with suppress(FileNotFoundError):
                content = _erase_lines(path.suffix, path.read_bytes(), values, changes)
                if content is not None:
                    _replace(path, content)
    if landings.url is not None:
        _erase_from_objects(landings.url, values, changes)
    return changes


def _list_batches(home: Path) -> Iterator[Path]:
    """The batches; what an erasure that was killed has left beside them is removed."""
    for name in _FOLDERS:
        for folder, _, names in os.walk(home / name):
            for path in (Path(folder) / file_name for file_name in names):
                if path.suffix == _UNFINISHED:
                    path.unlink(missing_ok=True)
                elif not path.name.startswith("."):
                    yield path


def _erase_from_objects(url: str, values: ErasedValues, changes: BatchChanges) -> None:
    """An object keeps its name, which is its place in the order."""
    # Loaded here: the libraries of object storage are slow to load.
    from archiver.storage import ObjectFolder

    folder = ObjectFolder(url)
    for path in [listed.path for listed in folder.list()]:
        name = PurePosixPath(str(path).removeprefix(f"{url}/"))
        if _is_of_lines(path, changes):
            with suppress(FileNotFoundError), path.open() as file:
                content = _erase_lines(name.suffix, file.read(), values, changes)
                if content is not None:
                    folder.put(str(name), io.BytesIO(content), len(content))


def _is_of_lines(path: object, changes: BatchChanges) -> bool:
    suffixes = PurePosixPath(str(path)).suffixes
    if suffixes[-1:] == [".gz"]:
        suffixes.pop()
    if suffixes[-1:] and suffixes[-1] in _LINE_SUFFIXES:
        return True
    changes.other.append(str(path))
    return False


def _erase_lines(
    suffix: str, content: bytes, values: ErasedValues, changes: BatchChanges
) -> bytes | None:
    """The content without the lines that have a value; None: no line has."""
    is_compressed = suffix == ".gz"
    if is_compressed:
        content = gzip.decompress(content)
    lines = io.BytesIO(content).readlines()  # a carriage return alone ends no record
    emptied = 0
    for number, line in enumerate(lines):
        if values.search_bytes(line):
            lines[number] = b"\n"
            emptied += 1
    if not emptied:
        return None
    changes.lines += emptied
    content = b"".join(lines)
    return gzip.compress(content) if is_compressed else content


def _replace(path: Path, content: bytes) -> None:
    """Replace a file; its modification time, which is its place in the order, stays."""
    stat = path.stat()
    written = path.with_name(f".{path.name}{_UNFINISHED}")
    with written.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.utime(written, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    written.replace(path)
