"""Makes a backup of a running workspace."""

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

import sql
from archiver.clock import utc_now
from archiver.delta import (
    RowIds,
    StreamSchema,
    TableFiles,
    TableVersion,
    list_expected,
    read_recorded_schema,
)
from archiver.storage import LocalStorage, StorageRoot
from archiver.threads import start_thread
from moirae import __version__
from moirae.backup.landing_copies import LandingCopies
from moirae.backup.manifest import FORMAT, FileEntry, Manifest, TableEntry
from moirae.backup.postgresql import await_dump, open_dump
from moirae.backup.repository import Ownership, Repository
from moirae.backup.state import WorkspaceState, take_state
from moirae.backup.workspace_files import write_tar
from moirae.config import Settings
from moirae.errors import MoiraeError, Stopped
from moirae.runtime import connect_database, database_dsn
from moirae.runtime.storage import Landings, list_filled_tables, open_storage
from sql.archive import FileCheckGateway

FILES_PART = "files.tar"
DATABASE_PART = "database.dump"
# A file that the state needs may have been removed before it was copied: then with a new state.
_MAX_STATES = 3
_COPY_THREADS = 4
_RECORD_FILES = 500  # copied files between two records of them
_RECORD_INTERVAL = 20.0  # seconds between two records of copied files

Report = Callable[[int, int], object]
"""Called with the bytes of data files that are copied, and of all that have to be copied."""


@dataclass(frozen=True)
class BackupOptions:
    """`since`: the backup that this one continues; None: the newest. `dump_database`: whether the
    database is part of it. `check_stop`: is called between files, and raises `Stopped` to end the
    backup, which the next one continues.
    """

    since: str | None = None
    dump_database: bool = True
    report: Report = lambda copied, total: None
    check_stop: Callable[[], None] = lambda: None


def create_backup(settings: Settings, repository: Repository, options: BackupOptions) -> Manifest:
    """Make a backup, while the processes of the workspace run on.

    Data files that an earlier backup has are not copied again, nor those that one which was killed
    has copied. Raises `MoiraeError`, `ArchiverError`, `OSError` and `sql.DatabaseError`.
    """
    started_at = utc_now()
    with _staging_folder(settings) as staging:
        for number in range(1, _MAX_STATES + 1):
            try:
                return _Creation(settings, repository, options, started_at, staging).run()
            except _FileRemoved as error:
                if number == _MAX_STATES:
                    raise MoiraeError(
                        f"{error}: it was removed before it was copied: set `archive_history` "
                        "longer than a backup takes"
                    ) from error
    raise AssertionError


@contextmanager
def _staging_folder(settings: Settings) -> Iterator[Path]:
    """An empty folder on the disk of the workspace."""
    folder = settings.home / "backup"
    shutil.rmtree(folder, ignore_errors=True)  # of a backup that was killed
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _FileRemoved(MoiraeError):
    """A file that the state needs is gone."""


@dataclass(frozen=True)
class _Copy:
    """A data file that has to be copied. `digest`: as it was written; None: not known."""

    table: TableVersion
    path: str
    bytes: int
    digest: str | None

    @property
    def row_ids(self) -> RowIds | None:
        """The identities of its rows as they were written; None: not known."""
        return self.table.row_ids.get(self.path)


class _Creation:
    """One attempt, from one state."""

    def __init__(
        self,
        settings: Settings,
        repository: Repository,
        options: BackupOptions,
        started_at: datetime,
        staging: Path,
    ) -> None:
        self._settings = settings
        self._repository = repository
        self._options = options
        self._started_at = started_at
        self._staging = staging
        self._root = open_storage(settings)
        self._name = repository.choose_name(utc_now())
        self._new_bytes = 0

    def run(self) -> Manifest:
        """Make the backup. The database is dumped while data files are copied."""
        newest = self._repository.find_newest()
        previous = (
            newest if self._options.since is None else self._repository.get(self._options.since)
        )
        parts: dict[str, FileEntry] = {}
        landing = LandingCopies(
            Landings.of(self._settings), self._settings.streams, self._staging / "landing"
        )
        with ExitStack() as ending, ExitStack() as dumping, ExitStack() as taking:
            connection = taking.enter_context(connect_database(self._settings, "backup"))
            state = taking.enter_context(take_state(connection, self._root, landing))
            self._check_tables(state, connection)
            self._repository.claim(Ownership(state.identity.id, state.identity.generation))
            dump: BinaryIO | None = None
            if self._options.dump_database:
                dsn = database_dsn(self._settings)
                dump = dumping.enter_context(open_dump(dsn, state.snapshot_id))
            checks = FileCheckGateway(connection)
            recorded = {
                table.table.name: checks.list_recorded(table.table.name) for table in state.tables
            }
            written_dump = None
            if dump is None:
                taking.close()
            else:
                # From here on the connection, whose snapshot is dumped, is that thread's.
                snapshot = taking.pop_all()
                written_dump = start_thread(partial(self._write_dump, dump, snapshot), "dump")
                # A backup that fails ends the dump first; nothing is written once it has returned.
                ending.callback(wait, [written_dump])
            parts[FILES_PART] = self._write_files(state)
            landing.clear()
            incomplete = [name for name in self._repository.list_incomplete() if name != self._name]
            copied = self._list_copied(newest, incomplete)
            entries = self._copy_tables(state.tables, recorded, copied)
            if written_dump is not None:
                parts[DATABASE_PART] = written_dump.result()
        self._new_bytes += sum(entry.bytes for entry in parts.values())
        manifest = Manifest(
            format=FORMAT,
            name=self._name,
            workspace=state.identity.id,
            generation=state.identity.generation,
            moirae=__version__,
            migration=state.migration,
            started_at=self._started_at,
            taken_at=state.taken_at,
            finished_at=utc_now(),
            previous=None if previous is None else previous.name,
            has_database=self._options.dump_database,
            workspace_file=self._settings.file.name,
            tables=entries,
            parts=parts,
            accounting=state.accounting,
            new_bytes=self._new_bytes,
        )
        self._repository.write_manifest(manifest)
        if incomplete:
            self._repository.remove_unfinished()
            with suppress(Stopped):  # the backup is complete: the next one removes them
                self._repository.remove_unused_files(self._options.check_stop)
                self._repository.remove_backups(incomplete)
        return manifest

    def _check_tables(self, state: WorkspaceState, connection: sql.Connection) -> None:
        """Raise `MoiraeError` if a stream has lost its table: good backups would expire for it."""
        filled = {table.table.name for table in state.tables if table.files}
        for name, rows in list_filled_tables(self._settings, connection).items():
            if name not in filled:
                raise MoiraeError(
                    f"{self._root}/{name}: the table is missing or empty, {rows:,} rows according to "
                    "the ledger: run `moirae doctor --repair --dry-run`"
                )

    def _write_files(self, state: WorkspaceState) -> FileEntry:
        with TemporaryFile(dir=self._staging) as file:
            write_tar(file, self._settings, state.tables, state.batches)
            file.seek(0)
            return self._repository.write_part(self._name, FILES_PART, file)

    def _write_dump(self, dump: BinaryIO, snapshot: ExitStack) -> FileEntry:
        """Store the dump. `snapshot` is closed once the dump does not need it any more."""
        with snapshot:
            await_dump(dump)
        return self._repository.write_part(self._name, DATABASE_PART, dump)

    def _list_copied(
        self, newest: Manifest | None, incomplete: Sequence[str]
    ) -> dict[tuple[str, str], FileEntry]:
        """Entries of the data files that need not be copied again, by table and path.

        What only older backups have was removed from the archive since.
        """
        entries: dict[tuple[str, str], FileEntry] = {}
        for name in incomplete:
            entries.update(self._repository.read_copied(name))
        if newest is not None:
            for table, path, entry in newest.data_files():
                entries[table, path] = entry
        if not entries:
            return entries
        present = self._repository.list_data_files()
        may_hold = self._repository.may_hold
        return {
            key: entry
            for key, entry in entries.items()
            if may_hold(present.get("/".join(key)), entry)
        }

    def _copy_tables(
        self,
        tables: Sequence[TableVersion],
        recorded: Mapping[str, Mapping[str, str]],
        copied_before: Mapping[tuple[str, str], FileEntry],
    ) -> dict[str, TableEntry]:
        """Copy the data files that were not copied before; return the entries of all tables.

        `recorded`: digests by table and path that are not in the logs.
        """
        entries: dict[str, dict[str, FileEntry]] = {}
        copies: list[_Copy] = []
        for table in tables:
            name = table.table.name
            entries[name] = {}
            for file in list_expected(table, recorded[name]):
                entry = copied_before.get((name, file.path))
                if entry is None:
                    copies.append(_Copy(table, file.path, file.bytes, file.digest))
                else:
                    entries[name][file.path] = entry
        for copy, entry in self._copy_all(copies):
            entries[copy.table.table.name][copy.path] = entry
        return {
            table.table.name: TableEntry(
                table.table.kind, table.version, table.number, entries[table.table.name]
            )
            for table in tables
        }

    def _copy_all(self, copies: Sequence[_Copy]) -> Iterator[tuple[_Copy, FileEntry]]:
        """Copy files in parallel, and record them from time to time: a killed backup continues."""
        copier = _FileCopier(self._root, self._repository, self._staging)
        record = _CopyRecord(self._repository, self._name)
        total = sum(copy.bytes for copy in copies)
        copied = 0
        for copy, entry in _run_parallel(copier.copy, copies):
            record.add(copy.table.table.name, copy.path, entry)
            copied += copy.bytes
            self._new_bytes += entry.bytes
            self._options.report(copied, total)
            try:
                self._options.check_stop()
            except Stopped:
                record.write()
                raise
            yield copy, entry
        self._repository.sync_data_files(record.unrecorded)


def _run_parallel(
    work: Callable[[_Copy], FileEntry], copies: Sequence[_Copy]
) -> Iterator[tuple[_Copy, FileEntry]]:
    """Results as they come, with a few files in work at a time. The first error is raised."""
    remaining = iter(copies)
    pending: dict[Future[FileEntry], _Copy] = {}
    with ThreadPoolExecutor(_COPY_THREADS, "backup") as pool:
        while True:
            for copy in islice(remaining, 2 * _COPY_THREADS - len(pending)):
                pending[pool.submit(work, copy)] = copy
            if not pending:
                return
            done, _ = wait(pending, return_when=FIRST_COMPLETED)
            for future in done:
                yield pending.pop(future), future.result()


class _CopyRecord:
    """Records copied files in the folder of the backup; `unrecorded`: since the last record."""

    def __init__(self, repository: Repository, name: str) -> None:
        self._repository = repository
        self._name = name
        self._number = 0
        self.unrecorded: dict[str, dict[str, FileEntry]] = {}
        self._count = 0
        self._recorded_at = time.monotonic()

    def add(self, table: str, path: str, entry: FileEntry) -> None:
        """Record a file, together with others."""
        self.unrecorded.setdefault(table, {})[path] = entry
        self._count += 1
        age = time.monotonic() - self._recorded_at
        if self._count >= _RECORD_FILES or age > _RECORD_INTERVAL:
            self.write()

    def write(self) -> None:
        """Record what is not recorded."""
        self._number += 1
        self._repository.write_copied(self._name, self._number, self.unrecorded)
        self.unrecorded = {}
        self._count = 0
        self._recorded_at = time.monotonic()


class _FileCopier:
    """Copies data files into the backup folder, and reads the identities of their rows."""

    def __init__(self, root: StorageRoot, repository: Repository, staging: Path) -> None:
        self._root = root
        self._repository = repository
        self._staging = staging
        self._schemas: dict[str, StreamSchema | None] = {}

    def copy(self, copy: _Copy) -> FileEntry:
        """Copy a file. Raises `_FileRemoved`."""
        table = copy.table.table
        try:
            if isinstance(table.storage, LocalStorage):
                return self._copy_local(copy, table.storage)
            # Apart from the cache of the archive, which has what recalls read.
            local = LocalStorage(self._staging / "files") / table.name
            with (
                table.storage.open_stream(copy.path) as source,
                local.write_stream(copy.path, sync_folder=False) as target,
            ):
                shutil.copyfileobj(source, target, 1 << 20)
            try:
                return self._copy_local(copy, local)
            finally:
                local.remove(copy.path)
        except FileNotFoundError as error:
            raise _FileRemoved(f"{table.storage}/{copy.path}") from error

    def _copy_local(self, copy: _Copy, storage: LocalStorage) -> FileEntry:
        table = copy.table.table
        with storage.open_stream(copy.path) as source:
            size = os.fstat(source.fileno()).st_size
            if size != copy.bytes:
                raise MoiraeError(
                    f"{table.storage}/{copy.path}: has {size:,} bytes, {copy.bytes:,} according "
                    "to the log of its table: run `moirae doctor`"
                )
            entry = self._repository.write_data_file(table.name, copy.path, source)
        if copy.digest not in (None, entry.sha256):
            raise MoiraeError(
                f"{table.storage}/{copy.path}: is not what was written, its SHA-256 differs: see "
                "`moirae doctor --repair --dry-run`"
            )
        if table.kind != "stream":
            return entry
        row_ids = copy.row_ids or self._read_ids(table.stream, storage, copy.path)
        return replace(entry, rows=row_ids.count, ids=row_ids.digest)

    def _read_ids(self, stream: str, storage: LocalStorage, path: str) -> RowIds:
        if stream not in self._schemas:
            self._schemas[stream] = read_recorded_schema(self._root, stream)
        schema = self._schemas[stream]
        if schema is None:
            raise FileNotFoundError(stream)
        return TableFiles(schema, storage).read_row_ids(path)
