"""Checks of data files against the log of their table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from deltalake.exceptions import TableNotFoundError

from archiver.delta.archive_tables import ArchiveTable
from archiver.delta.digests import read_digest
from archiver.delta.table_version import TableVersion, read_newest_version, read_version

DamageKind = Literal["missing", "size", "content"]


@dataclass(frozen=True)
class DamagedFile:
    """A data file that is not what the log says. `path`: relative to its table."""

    path: str
    kind: DamageKind
    text: str


@dataclass(frozen=True)
class ExpectedFile:
    """What is known of a data file. `digest`: None: nobody has recorded it."""

    path: str
    bytes: int
    digest: str | None


@dataclass(frozen=True)
class FileCheck:
    """The data files of a table: how many there are, how many were compared by their digest, and
    which are damaged.
    """

    count: int
    compared: int
    damaged: Sequence[DamagedFile]


def read_present_version(table: ArchiveTable) -> TableVersion | None:
    """The newest version of a table; None: it is gone, or has no commit yet."""
    try:
        return read_version(table, read_newest_version(table))
    except TableNotFoundError:
        return None


def list_expected(version: TableVersion, recorded: Mapping[str, str]) -> list[ExpectedFile]:
    """The data files of a version. `recorded`: digests that were recorded apart from the log."""
    digests = {**recorded, **version.digests}
    return [ExpectedFile(path, size, digests.get(path)) for path, size in version.files.items()]


def check_file(table: ArchiveTable, file: ExpectedFile) -> tuple[str | None, DamagedFile | None]:
    """Read a data file. Returns its digest, None if it is missing, and what is wrong with it."""
    try:
        with table.storage.open_stream(file.path) as content:
            digest = read_digest(content)
    except FileNotFoundError:
        return None, DamagedFile(file.path, "missing", f"{file.path} is missing")
    if file.digest is None or digest == file.digest:
        return digest, None
    text = f"{file.path} is not what was written: its SHA-256 differs"
    return digest, DamagedFile(file.path, "content", text)


def check_files(table: ArchiveTable, recorded: Mapping[str, str]) -> FileCheck | None:
    """Whether the data files of the newest version are as the log says; None: there is no table.

    `recorded`: digests of files that were recorded apart from the log. Files without one are
    checked by their size.
    """
    version = read_present_version(table)
    if version is None:
        return None
    damaged = list(_find_damaged(version, recorded))
    if damaged:
        # Files that were replaced meanwhile may be deleted.
        present = read_present_version(table)
        files = {} if present is None else present.files
        damaged = [file for file in damaged if file.path in files]
    compared = sum(1 for file in list_expected(version, recorded) if file.digest is not None)
    return FileCheck(len(version.files), compared, damaged)


def _find_damaged(version: TableVersion, recorded: Mapping[str, str]) -> Iterator[DamagedFile]:
    sizes = version.table.storage.list_sizes()
    for file in list_expected(version, recorded):
        size = sizes.get(file.path)
        if size is None:
            yield DamagedFile(file.path, "missing", f"{file.path} is missing")
        elif size != file.bytes:
            text = f"{file.path} has {size:,} bytes, {file.bytes:,} according to the log"
            yield DamagedFile(file.path, "size", text)
        elif file.digest is not None:
            _, damage = check_file(version.table, file)
            if damage is not None:
                yield damage
