"""Where an archive's tables are: in a folder of this machine, here, or in a bucket (`archiver.storage.s3`).

Data files never change once they are written. So whoever reads them reads files of this machine: the table's own, or
copies of what is in the bucket.
"""

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

LOG_FOLDER = "_delta_log"
# Makes a commit of a name, unless there is one: whether it is ours now.
TryCommit = Callable[[str], bool]


class Storage(ABC):
    """A folder with tables in it, or that of one table. Names of files are relative to it, with `/`.

    What cannot be read or written raises `OSError`, or `ArchiverError` with the reason.
    """

    # Seconds that a file stays at least which is no part of a table: it may be on its way there. A commit is refused
    # when half of that has passed since its first file was begun. 0: as long as whoever removes it likes.
    min_file_retention = 0.0

    @abstractmethod
    def __truediv__(self, name: str) -> "Storage":
        """A folder in it."""

    @abstractmethod
    def __str__(self) -> str:
        """For people, and different for each place."""

    @property
    @abstractmethod
    def data_folder(self) -> Path:
        """The folder of this machine in which its data files are, or copies of some of them."""

    @property
    @abstractmethod
    def work_folder(self) -> Path:
        """A folder of this machine for what is made from an archive that is here, and can be made again."""

    @abstractmethod
    def has_table(self) -> bool:
        """Whether there is a table here."""

    def open_or_create_table(self, **table_options: Any) -> DeltaTable:
        """The table; created as it is declared when absent."""
        try:
            return self.open_table()
        except TableNotFoundError:
            return self.create_table(**table_options)

    @abstractmethod
    def open_table(self) -> DeltaTable:
        """The table, as the library reads it. Raises `TableNotFoundError`."""

    @abstractmethod
    def create_table(self, **table_options: Any) -> DeltaTable:
        """The table that is declared so, or that somebody else has made meanwhile."""

    def translate_errors(self) -> AbstractContextManager[None]:
        """What the library raises where it works on the table, as this place tells it."""
        return nullcontext()

    @abstractmethod
    def read_log_file(self, name: str) -> bytes:
        """A file of the log. Raises `FileNotFoundError`."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether there is such a file."""

    @abstractmethod
    def prepare_commit(self, content: bytes) -> AbstractContextManager[TryCommit]:
        """Makes the text a file of the log, under the first of some names that is free. Lasting when this ends."""

    @abstractmethod
    def write_data_file(self, name: str) -> AbstractContextManager[Path]:
        """A new data file, to be written at that path; lasting, and there for all readers, when this ends."""

    @abstractmethod
    def fetch(self, names: Sequence[str]) -> None:
        """Have data files on this machine, for `source`: so several come at once."""

    @abstractmethod
    def open_data_file(self, name: str) -> Any:
        """A data file for pyarrow to read, now."""

    @abstractmethod
    def lease_paths(self, names: Sequence[str]) -> list[str]:
        """Paths of data files, which stay as long as a history query may take."""

    @abstractmethod
    def list_files(self) -> list[str]:
        """All files that may be no part of the table: data files, and what was begun."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    @abstractmethod
    def folder_use_times(self) -> dict[str, float]:
        """The folders in it, with the time when a table in the folder `streams` of each was last made or used, by the
        clock, in seconds."""

    @abstractmethod
    def touch(self) -> None:
        """Remember that the table was used now."""

    @abstractmethod
    def remove_all(self) -> None:
        """Remove it with all there is in it."""


# As those name it who are given an archive.
StorageRoot = Path | Storage


def as_storage(root: StorageRoot) -> Storage:
    """The place."""
    return LocalStorage(root) if isinstance(root, Path) else root


class LocalStorage(Storage):
    """A folder of a local file system: commits are made by hard links, which fail where the name is taken."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __truediv__(self, name: str) -> "LocalStorage":
        return LocalStorage(self._folder / name)

    def __str__(self) -> str:
        return str(self._folder)

    @property
    def data_folder(self) -> Path:
        return self._folder

    @property
    def work_folder(self) -> Path:
        return self._folder

    def has_table(self) -> bool:
        return (self._folder / LOG_FOLDER).is_dir()

    def open_table(self) -> DeltaTable:
        return DeltaTable(self._folder)

    def create_table(self, **table_options: Any) -> DeltaTable:
        self._folder.mkdir(parents=True, exist_ok=True)
        return DeltaTable.create(self._folder, **table_options)

    def read_log_file(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()

    def exists(self, name: str) -> bool:
        return (self._folder / name).exists()

    @contextmanager
    def prepare_commit(self, content: bytes) -> Iterator[TryCommit]:
        folder = self._folder / LOG_FOLDER
        written = folder / f".{uuid4().hex}.tmp"
        written.write_bytes(content)
        fsync_files([written])

        def commit(name: str) -> bool:
            try:
                os.link(written, self._folder / name)
            except FileExistsError:
                return False
            return True

        try:
            yield commit
        finally:
            written.unlink()
        fsync_files([], [folder])

    @contextmanager
    def write_data_file(self, name: str) -> Iterator[Path]:
        path = self._folder / name
        path.parent.mkdir(exist_ok=True)
        yield path
        fsync_files([path])

    def fetch(self, names: Sequence[str]) -> None:
        pass

    def open_data_file(self, name: str) -> Any:
        return self._folder / name

    def lease_paths(self, names: Sequence[str]) -> list[str]:
        return [f"{self._folder}/{name}" for name in names]

    def list_files(self) -> list[str]:
        found = [
            *self._folder.glob("chunk=*/*.parquet"),
            *self._folder.glob(f"{LOG_FOLDER}/.*.tmp"),
        ]
        return [f"{path.parent.name}/{path.name}" for path in found]

    def remove(self, name: str) -> None:
        path = self._folder / name
        path.unlink(missing_ok=True)
        with suppress(OSError):
            path.parent.rmdir()  # when it was the last

    def folder_use_times(self) -> dict[str, float]:
        return {
            path.name: max(
                (one.stat().st_mtime for one in path.glob("streams/*")),
                default=path.stat().st_mtime,
            )
            for path in (self._folder.iterdir() if self._folder.is_dir() else ())
        }

    def touch(self) -> None:
        with suppress(FileNotFoundError):
            os.utime(self._folder)

    def remove_all(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def fsync_files(paths: Iterable[Path], folders: Iterable[Path] = ()) -> None:
    """Files, their folders and other folders are on disk when this returns."""
    files = list(paths)
    for path in (*files, *{file.parent for file in files}, *folders):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
