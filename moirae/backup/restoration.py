"""Restores a backup: into an empty workspace, or beside for a comparison."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from hashlib import file_digest
from io import BufferedReader
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile
from typing import BinaryIO, cast

import sql
from archiver.clock import unix_now
from archiver.delta import begin_generation
from archiver.storage import Storage, as_storage
from moirae.backup.creation import DATABASE_PART, FILES_PART
from moirae.backup.erased_list import load_list
from moirae.backup.manifest import FileEntry, Manifest
from moirae.backup.postgresql import restore_dump
from moirae.backup.repository import Ownership, Repository
from moirae.backup.workspace_files import (
    ELSEWHERE_FOLDER,
    LANDING_FOLDER,
    LOG_FOLDER,
    WORKSPACE_FOLDER,
    read_tar,
)
from moirae.config import Settings
from moirae.errors import Conflict, MoiraeError, UsageError
from moirae.runtime import database_dsn
from moirae.runtime.storage import (
    Landings,
    RestoreMark,
    open_storage,
    read_restore_mark,
    remove_restore_mark,
    write_archive_identity,
    write_restore_mark,
)
from sql.archive import UnitGateway
from sql.workspace import WorkspaceGateway

_COPY_THREADS = 4
# In a home that was used: the workspace file and its rules may be in the same folder.
_MICROS_PER_SECOND = 1_000_000
_HOME_FOLDERS = ("postgresql", "archive", "landing")

Report = Callable[[int, int], object]
"""Called with the bytes of data files that are restored, and of all."""


@dataclass(frozen=True)
class RestoredFiles:
    """Files of the workspace. `written`: those that were restored; `present`: those that exist, and
    were left as they are.
    """

    workspace_file: Path
    written: Sequence[Path]
    present: Sequence[Path]


class Restoration:
    """One backup of a folder, to be restored."""

    def __init__(
        self,
        repository: Repository,
        manifest: Manifest,
        report: Report = lambda copied, total: None,
    ) -> None:
        self.manifest = manifest
        self._repository = repository
        self._report = report
        newest_migration = sql.newest_migration()
        if manifest.migration > newest_migration:
            raise UsageError(
                f"backup {manifest.name} was made by Moirae {manifest.moirae}, whose database has "
                f"migration {manifest.migration}; this version knows {newest_migration}: update Moirae"
            )

    def restore_workspace_files(self, folder: Path) -> RestoredFiles:
        """Restore the workspace file, rule files and files of relations below a folder.

        Files that the workspace had elsewhere are restored to their absolute paths. Files that
        exist stay.
        """
        written: list[Path] = []
        present: list[Path] = []
        with self._open_files() as tar:
            for root, tar_folder in ((folder, WORKSPACE_FOLDER), (Path("/"), ELSEWHERE_FOLDER)):
                for name, info, content in read_tar(tar, tar_folder):
                    path = root / name
                    if path.exists():
                        present.append(path)
                        continue
                    path.parent.mkdir(parents=True, exist_ok=True)
                    with path.open("wb") as file:
                        shutil.copyfileobj(content, file)
                    path.chmod(info.mode)
                    os.utime(path, (info.mtime, info.mtime))
                    written.append(path)
        return RestoredFiles(folder / self.manifest.workspace_file, written, present)

    def check_empty(self, settings: Settings) -> None:
        """Raise `Conflict` unless home, archive and database are empty.

        Also if an interrupted restore of this backup has begun to fill them.
        """
        mark = read_restore_mark(settings.home)
        if mark is not None and mark.backup == self.manifest.name:
            return
        if mark is not None:
            raise Conflict(
                f"{settings.home}: the restore of backup {mark.backup} is not complete: restore "
                "that one, or remove the folder"
            )
        if any((settings.home / name).exists() for name in _HOME_FOLDERS):
            raise Conflict(
                f"{settings.home}: is not empty: a backup is restored into a new workspace: remove "
                "the folder, or set `home` to another one"
            )
        landings = Landings.of(settings)
        if any(landings.open(stream).pending_batches() for stream in settings.streams):
            raise Conflict(f"landing {settings.landing}: is not empty: remove its content")
        if any(as_storage(open_storage(settings)).list_folders()):
            raise Conflict(
                f"archive {settings.archive}: is not empty: remove its content, or set `archive` to "
                "another location"
            )
        if settings.database and self.manifest.has_database:
            with sql.connect(database_dsn(settings), application_name="moirae") as connection:
                if sql.has_schema(connection):
                    raise Conflict("the database is not empty: create a new one for the restore")

    def restore(self, settings: Settings) -> int:
        """Restore home, archive and database as the next generation; return its number.

        A restore that was interrupted continues. What was erased since the backup is not erased yet:
        see `moirae.erasure`.
        """
        mark = read_restore_mark(settings.home)
        generation = self._claim_generation() if mark is None else mark.generation
        write_restore_mark(settings.home, RestoreMark(self.manifest.name, generation))
        self.restore_content(settings, generation)
        self._begin_generation(settings, generation)
        with sql.connect(database_dsn(settings), application_name="moirae restore") as connection:
            load_list(connection, self._repository)
        os.sync()  # until here the files of archive and embedded database may be in memory
        remove_restore_mark(settings.home)
        return generation

    def restore_content(self, settings: Settings, generation: int | None) -> None:
        """Restore home, archive and database. `generation`: that the tables begin; None: none.

        The database is restored while data files are copied.
        """
        root = as_storage(open_storage(settings))
        root.remove_unfinished()  # of an interrupted restore
        with ThreadPoolExecutor(1, "database") as pool:
            database = pool.submit(self._restore_database, settings)
            with ThreadPoolExecutor(_COPY_THREADS, "restore") as copying:
                # With their bytes; an interrupted restore may not have written them to the disk.
                present = root.list_sizes()
                self._restore_data_files(root, present, copying)
                with self._open_files() as tar:
                    self._restore_logs(root, present, tar, copying)
                    self._restore_batches(Landings.of(settings), tar)
                if generation is not None:
                    now = int(unix_now() * 1000)
                    tables = [_subfolder(root, name) for name in self.manifest.tables]
                    begin = partial(begin_generation, generation=generation, timestamp=now)
                    list(copying.map(begin, tables))
            database.result()

    def _claim_generation(self) -> int:
        """The next generation, which is recorded in the backup folder."""
        ownership = self._repository.read_ownership()
        newest = self.manifest.generation
        if ownership is not None:
            newest = max(newest, ownership.generation)
        generation = newest + 1
        self._repository.claim(Ownership(self.manifest.workspace, generation))
        return generation

    def _open_files(self) -> BinaryIO:
        """The tar file of the backup, checked."""
        file = TemporaryFile()  # noqa: SIM115 the caller closes it
        try:
            self._read_part(FILES_PART, file)
        except BaseException:
            file.close()
            raise
        return file

    def _read_part(self, part: str, target: BinaryIO) -> None:
        copied = self._repository.read_part(self.manifest.name, part, target)
        self._repository.check(
            f"backups/{self.manifest.name}/{part}", self.manifest.parts[part], copied
        )

    def _restore_data_files(
        self, root: Storage, present: Mapping[str, int], pool: Executor
    ) -> None:
        files: list[tuple[str, str, FileEntry]] = []
        for table, path, entry in self.manifest.data_files():
            name = f"{table}/{path}"
            if present.get(name) != entry.bytes or not _is_restored(root, name, entry):
                files.append((table, path, entry))
        total = sum(entry.bytes for _, _, entry in files)
        restored = 0

        def copy(file: tuple[str, str, FileEntry]) -> int:
            table, path, entry = file
            with root.write_stream(f"{table}/{path}", sync=False) as target:
                copied = self._repository.read_data_file(table, path, target)
                self._repository.check(f"files/{table}/{path}", entry, copied)
            return entry.bytes

        for size in pool.map(copy, files):
            restored += size
            self._report(restored, total)

    def _restore_logs(
        self, root: Storage, present: Mapping[str, int], tar: BinaryIO, pool: Executor
    ) -> None:
        """A later version, with which an interrupted restore began the generation, stays."""
        writes: list[Future[None]] = []

        def write(name: str, content: bytes) -> None:
            if present.get(name) == len(content) and root.read_log_file(name) == content:
                return
            with root.write_stream(name, sync=False) as target:
                target.write(content)

        for name, _, content in read_tar(tar, LOG_FOLDER):
            writes.append(pool.submit(write, name, content.read()))
        for written in writes:
            written.result()

    def _restore_batches(self, landings: Landings, tar: BinaryIO) -> None:
        """Batches are read in the order of their modification times."""
        for name, info, content in read_tar(tar, LANDING_FOLDER):
            stream, _, file_name = name.partition("/")
            batch, _, suffix = file_name.partition(".")
            modified = round(info.mtime * _MICROS_PER_SECOND)
            with landings.open(stream).open_batch(batch, f".{suffix}", modified) as target:
                shutil.copyfileobj(content, target)

    def _restore_database(self, settings: Settings) -> None:
        dsn = database_dsn(settings)
        with sql.connect(dsn, application_name="moirae restore") as connection:
            has_content = sql.has_schema(connection)
        if not self.manifest.has_database:
            if not has_content:
                raise MoiraeError(
                    f"backup {self.manifest.name} is without the database, and the database is "
                    "empty: restore it first, by PostgreSQL's own tools"
                )
        elif not has_content:  # or an interrupted restore has restored it: all of it, or nothing
            with NamedTemporaryFile(dir=settings.home, prefix="restore-") as file:
                self._read_part(DATABASE_PART, cast(BinaryIO, file))
                file.flush()
                restore_dump(dsn, Path(file.name))
        with sql.connect(dsn, application_name="moirae restore") as connection:
            sql.migrate(connection, rewrite=True)
            self._check_database(connection)

    def _check_database(self, connection: sql.Connection) -> None:
        """Raise `Conflict` unless the database is the one that fits to the archive."""
        identity = WorkspaceGateway(connection).get()
        if identity.id != self.manifest.workspace:
            raise Conflict(
                f"the database is of workspace {identity.id}, the backup of "
                f"{self.manifest.workspace}: they do not belong together"
            )
        for counts in UnitGateway(connection).sum_by_stream():
            expected = self.manifest.accounting.get(counts.stream)
            if expected is None or (expected.read, expected.archived) != (
                counts.read,
                counts.archived,
            ):
                read = 0 if expected is None else expected.read
                raise Conflict(
                    f"the database does not fit to backup {self.manifest.name}: stream "
                    f"{counts.stream}: {counts.read:,} records read according to it, {read:,} "
                    "according to the backup: restore the database of the same moment"
                )

    def _begin_generation(self, settings: Settings, generation: int) -> None:
        with (
            sql.connect(database_dsn(settings), application_name="moirae restore") as connection,
            connection.transaction(),
        ):
            WorkspaceGateway(connection).begin_generation(
                generation, backup=self.manifest.name, backed_up_at=self.manifest.taken_at
            )
        write_archive_identity(settings, self.manifest.workspace, generation)


def _is_restored(root: Storage, name: str, entry: FileEntry) -> bool:
    with root.open_stream(name) as file:
        return file_digest(cast(BufferedReader, file), "sha256").hexdigest() == entry.sha256


def _subfolder(root: Storage, name: str) -> Storage:
    folder = root
    for part in name.split("/"):
        folder = folder / part
    return folder
