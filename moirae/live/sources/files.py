"""Files as source units."""

import os
import stat
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

from archiver.file_names import escape_name
from archiver.formats import Format
from archiver.ingest import SourceUnit, open_file
from archiver.storage import ObjectPath
from archiver.times import Micros
from sql.archive import FileVersionRow

HASHED_BYTES = 1024
"""Bytes of a file that are hashed, to find it again under another name."""
_DIGEST_BYTES = 16


@dataclass(frozen=True)
class DiscoveredFile:
    """A listed file of a stream. `modified`: modification time in microseconds; `size`: bytes.

    `reading`: how often it will have been read then. `place`, `stamp`: the name by which its rows
    are identified, and by what it is found again when it was renamed; None if it is not.
    """

    stream: str
    path: Path | ObjectPath
    modified: int
    size: int
    inode: int | None = None
    reading: int = 1
    place: str | None = None
    stamp: str | None = None


def hash_bytes(content: bytes) -> bytes:
    """The hash of some bytes of a file."""
    return blake2b(content, digest_size=_DIGEST_BYTES).digest()


def make_units(
    discovered: Sequence[DiscoveredFile], formats: Mapping[str, Format], base: Path
) -> list[SourceUnit]:
    """Source units of the files, by stream, modification time and path.

    This order decides which rows are late. Units are named relative to `base`.
    """
    units: list[SourceUnit] = []
    for file in sorted(discovered, key=lambda f: (f.stream, f.modified, str(f.path))):
        name = unit_name(file.path, base)
        file_format = formats[file.stream]
        is_first = file.reading == 1
        unit = SourceUnit(
            stream=file.stream,
            name=name if is_first else f"{name}#{file.reading}",
            format=file_format,
            read=open_file(file_format, file.path),
            path=file.path,
            size=file.size,
            place=None if is_first else name,
            version=FileVersionRow(name, file.size, file.modified, file.reading),
        )
        if file.place is not None:
            unit = replace(unit, place=file.place, stamp=file.stamp)
        units.append(unit)
    return units


def make_unit(
    stream: str, name: str, file_format: Format, path: Path | ObjectPath, size: int
) -> SourceUnit:
    """The source unit of one file of `size` bytes, which is read when the unit is."""
    return SourceUnit(
        stream=stream,
        name=name,
        format=file_format,
        read=open_file(file_format, path),
        path=path,
        size=size,
    )


def stat_file(stream: str, path: Path) -> DiscoveredFile | None:
    """A path that is a file, or cannot be opened, as a link to nothing: reading it says why.

    None: it is a folder or something else, or no longer exists.
    """
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            return None
    except OSError:
        try:
            status = path.lstat()
        except OSError:
            return None
    return DiscoveredFile(stream, path, to_modified(status), status.st_size, status.st_ino)


def to_modified(status: os.stat_result) -> Micros:
    """When a file was modified, to the millisecond: not all file systems have more."""
    return status.st_mtime_ns // 1_000_000 * 1000


def arrived_at(file: DiscoveredFile) -> float:
    """When a file arrived, in seconds since 1970.

    The time of its inode's last change: a file that is moved or copied may keep an old modification
    time.
    """
    if not isinstance(file.path, ObjectPath):
        with suppress(OSError):
            return file.path.stat().st_ctime
    return file.modified / 1_000_000


def unit_name(path: Path | ObjectPath, base: Path) -> str:
    """The name of a file in the ledger: relative to the workspace, so that it can be moved."""
    if isinstance(path, ObjectPath):
        return path.url
    return escape_name(str(path).removeprefix(os.path.join(base, "")))
