"""Storage interface of an archive, and its implementation for a local folder.

Data files are immutable. Readers always read local files: those of the table itself, or cached
copies of objects in a bucket (`archiver.storage.s3`).
"""

import errno
import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from deltalake import DeltaTable

LOG_FOLDER = "_delta_log"
_UNFINISHED_SUFFIX = ".tmp"
_UNFINISHED_NAME = re.compile(r"\.[0-9a-f]{32}\.tmp")
# Errors that only writing has.
_WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)
# Creates the prepared log file under a name. Returns False if a file of that name exists.
TryCommit = Callable[[str], bool]


class Storage(ABC):
    """A folder with tables in it, or the folder of one table.

    File names are relative to the folder and use `/`. Failures raise `OSError`, or `ArchiverError`
    with a message for the user.
    """

    # Minimum age, in seconds, at which a vacuum may remove a file that is no part of a table: the
    # file may belong to a commit in progress. A commit is refused when half of this time has passed
    # since its first file was started. 0: no minimum, and commits may take any time.
    min_file_retention = 0.0

    @abstractmethod
    def __truediv__(self, name: str) -> "Storage":
        """Return the storage of a subfolder."""

    @abstractmethod
    def __str__(self) -> str:
        """Path or URL for messages; unique, so that it also identifies the storage."""

    @property
    @abstractmethod
    def data_folder(self) -> Path:
        """The local folder with the data files, or with cached copies of some of them."""

    @property
    @abstractmethod
    def work_folder(self) -> Path:
        """A local folder for data derived from the archive, such as indexes. It can be rebuilt."""

    @abstractmethod
    def has_table(self) -> bool:
        """Whether this folder is a Delta table."""

    @abstractmethod
    def open_table(self) -> DeltaTable:
        """Open the table with the deltalake library. Raises `TableNotFoundError`."""

    @abstractmethod
    def create_log_folder(self) -> None:
        """Prepare the folder for the first commit of a table."""

    def translate_errors(self) -> AbstractContextManager[None]:
        """Turn exceptions of the deltalake library into those that this class documents."""
        return nullcontext()

    @abstractmethod
    def read_log_file(self, name: str) -> bytes:
        """Read a file of the Delta log. Raises `FileNotFoundError`."""

    @abstractmethod
    def exists(self, name: str) -> bool:
        """Whether a file exists."""

    @abstractmethod
    def prepare_commit(self, content: bytes) -> AbstractContextManager[TryCommit]:
        """Yield a function that creates a log file of this content, to be tried with several names.

        The file is durable when the context ends.
        """

    @abstractmethod
    def write_data_file(self, name: str) -> AbstractContextManager[Path]:
        """Yield the local path at which to write a new data file.

        The file is durable and visible to all readers when the context ends.
        """

    def write_whole_file(self, name: str) -> AbstractContextManager[Path]:
        """Like `write_data_file`, but a file of the name exists only when it is durable."""
        return self.write_data_file(name)

    @abstractmethod
    def fetch(self, names: Sequence[str]) -> None:
        """Download data files in parallel, ahead of `open_data_file`."""

    @abstractmethod
    def open_data_file(self, name: str) -> Any:
        """Return a data file as a source that pyarrow reads: a path, or an open file."""

    @abstractmethod
    def lease_paths(self, names: Sequence[str]) -> list[str]:
        """Return local paths of data files, which stay for as long as a history query may take."""

    @abstractmethod
    def list_files(self) -> list[str]:
        """List data files and unfinished log files, whether or not they belong to the table."""

    @abstractmethod
    def list_folders(self) -> list[str]:
        """List the names of the subfolders, sorted; empty without the folder."""

    @abstractmethod
    def list_sizes(self) -> dict[str, int]:
        """Map each file below the folder, at any depth, to its bytes; without unfinished ones."""

    @abstractmethod
    def open_stream(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Open a file for reading from its start, apart from the cache of data files.

        Raises `FileNotFoundError`, on entry.
        """

    @abstractmethod
    def write_stream(
        self, name: str, *, sync: bool = True, sync_folder: bool = True
    ) -> AbstractContextManager[BinaryIO]:
        """Yield a file to write to, apart from the cache of data files.

        The file appears under its name, whole and durable, when the context ends, and replaces one
        of that name; not if the context ends by an error. `sync_folder`: False for one of many
        files, whose names are durable after `sync_folders` only. `sync`: False for a file of a
        disk that its writer flushes later, together with others.
        """

    @abstractmethod
    def sync_folders(self, names: Iterable[str]) -> None:
        """Make the names of files durable, and those of the folders in which they are."""

    @abstractmethod
    def remove_unfinished(self) -> None:
        """Remove what killed processes have left of files at any depth that nobody writes now."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file if it exists."""

    @abstractmethod
    def folder_use_times(self) -> dict[str, float]:
        """Map each subfolder to the time of the last write or `touch` of a table in its `streams`.

        Times are Unix seconds.
        """

    @abstractmethod
    def touch(self) -> None:
        """Record that the table is used now."""

    @abstractmethod
    def remove_all(self) -> None:
        """Remove this folder with all its contents."""

    @abstractmethod
    def replace(self, target: "Storage") -> None:
        """Rename this folder, if it exists, to another one of the same storage, which is replaced.

        After an interruption a further call completes it.
        """


# What callers may pass for an archive: a local folder, or any storage.
StorageRoot = Path | Storage


def as_storage(root: StorageRoot) -> Storage:
    """Wrap a path as `LocalStorage`; return a storage as it is."""
    return LocalStorage(root) if isinstance(root, Path) else root


def _list_names(folder: Path, *, prefix: str = "", suffix: str) -> list[str]:
    """Files of a folder with its name before theirs; empty if it is gone."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    matching = [name for name in names if name.startswith(prefix) and name.endswith(suffix)]
    return [f"{folder.name}/{name}" for name in matching]


def _list_sizes(folder: Path, prefix: str) -> Iterator[tuple[str, int]]:
    """Files below a folder, by strings: there may be hundreds of thousands."""
    try:
        entries = list(os.scandir(folder / prefix))
    except (FileNotFoundError, NotADirectoryError):
        return
    for entry in entries:
        name = f"{prefix}{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            yield from _list_sizes(folder, f"{name}/")
        elif entry.is_file() and not (
            entry.name.startswith(".") and entry.name.endswith(_UNFINISHED_SUFFIX)
        ):
            with suppress(FileNotFoundError):
                yield name, entry.stat().st_size


class LocalStorage(Storage):
    """A folder of a local file system. Commits are hard links, which never replace a file."""

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

    def create_log_folder(self) -> None:
        (self._folder / LOG_FOLDER).mkdir(parents=True, exist_ok=True)

    def read_log_file(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()

    def exists(self, name: str) -> bool:
        return (self._folder / name).exists()

    @contextmanager
    def prepare_commit(self, content: bytes) -> Iterator[TryCommit]:
        log_folder = self._folder / LOG_FOLDER
        temporary = log_folder / f".{uuid4().hex}.tmp"
        temporary.write_bytes(content)
        fsync_files([temporary])

        def commit(name: str) -> bool:
            try:
                os.link(temporary, self._folder / name)
            except FileExistsError:
                return False
            return True

        try:
            yield commit
        finally:
            temporary.unlink()
        fsync_files([], [log_folder])

    @contextmanager
    def write_data_file(self, name: str) -> Iterator[Path]:
        path = self._folder / name
        path.parent.mkdir(exist_ok=True)
        yield path
        fsync_files([path])

    @contextmanager
    def write_whole_file(self, name: str) -> Iterator[Path]:
        path = self._folder / name
        # Of this program by its name: a vacuum removes it if the process is killed.
        temporary = path.with_name(f"a-0-{uuid4().hex}.parquet")
        temporary.parent.mkdir(exist_ok=True)
        try:
            yield temporary
            fsync_files([temporary])
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        fsync_files([], [path.parent])

    def fetch(self, names: Sequence[str]) -> None:
        pass

    def open_data_file(self, name: str) -> Any:
        return self._folder / name

    def lease_paths(self, names: Sequence[str]) -> list[str]:
        return [f"{self._folder}/{name}" for name in names]

    def list_files(self) -> list[str]:
        # By names: with a day of history there may be hundreds of thousands.
        names: list[str] = []
        for folder in self._folder.glob("chunk=*"):
            names += _list_names(folder, suffix=".parquet")
        unfinished_commits = _list_names(self._folder / LOG_FOLDER, prefix=".", suffix=".tmp")
        return names + unfinished_commits

    def list_folders(self) -> list[str]:
        try:
            entries = list(os.scandir(self._folder))
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(entry.name for entry in entries if entry.is_dir())

    def list_sizes(self) -> dict[str, int]:
        return dict(_list_sizes(self._folder, ""))

    @contextmanager
    def open_stream(self, name: str) -> Iterator[BinaryIO]:
        with (self._folder / name).open("rb") as file:
            yield file

    @contextmanager
    def write_stream(
        self, name: str, *, sync: bool = True, sync_folder: bool = True
    ) -> Iterator[BinaryIO]:
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.parent / f".{uuid4().hex}{_UNFINISHED_SUFFIX}"
        try:
            with unfinished.open("wb") as file:
                yield file
                file.flush()
                if sync:
                    os.fsync(file.fileno())
            unfinished.replace(path)
        except OSError as error:
            if error.errno in _WRITE_ERRORS:  # without a name, or with that of the unfinished file
                error.filename = str(path)
            raise
        finally:
            with suppress(OSError):  # as on a disk that cannot be written
                unfinished.unlink(missing_ok=True)
        if sync and sync_folder:
            self.sync_folders([name])

    def sync_folders(self, names: Iterable[str]) -> None:
        folders: set[Path] = set()
        for name in names:
            folders.update((self._folder / name).parents)
        own = {folder for folder in folders if folder.is_relative_to(self._folder)}
        fsync_files([], sorted(own))

    def remove_unfinished(self) -> None:
        for path in self._folder.rglob(f".*{_UNFINISHED_SUFFIX}"):
            if _UNFINISHED_NAME.fullmatch(path.name):  # other programs have such files, too
                path.unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        path = self._folder / name
        path.unlink(missing_ok=True)
        with suppress(OSError):
            path.parent.rmdir()  # fails unless this was the folder's last file

    def folder_use_times(self) -> dict[str, float]:
        use_times: dict[str, float] = {}
        if not self._folder.is_dir():
            return use_times
        for folder in self._folder.iterdir():
            table_times = [table.stat().st_mtime for table in folder.glob("streams/*")]
            use_times[folder.name] = max(table_times, default=folder.stat().st_mtime)
        return use_times

    def touch(self) -> None:
        with suppress(FileNotFoundError):
            os.utime(self._folder)

    def remove_all(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def replace(self, target: Storage) -> None:
        assert isinstance(target, LocalStorage)
        if self._folder.is_dir():
            target.remove_all()
            self._folder.rename(target._folder)
            fsync_files([], [target._folder.parent])


def fsync_files(paths: Iterable[Path], folders: Iterable[Path] = ()) -> None:
    """Flush files, their parent folders and further folders to disk."""
    files = list(paths)
    parents = {file.parent for file in files}
    for path in (*files, *parents, *folders):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
