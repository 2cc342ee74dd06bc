"""Plans and runs the repairs of a workspace, phase by phase: each needs what the one before mended."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

import sql
from archiver.delta import (
    ArchiveTable,
    DamagedFile,
    DamagedLogFile,
    StreamSchema,
    StreamTable,
    list_expected,
    plan_log_repair,
    read_present_version,
    remove_files,
    repair_log,
)
from archiver.errors import ArchiverError
from archiver.storage import Storage, as_storage
from moirae.backup import FileEntry, Manifest
from moirae.config import Settings
from moirae.inspect import TableCheck, check_tables
from moirae.repair.backup_files import BackupFiles
from moirae.repair.database_tables import DatabaseTables
from moirae.repair.ledger import LedgerRepair
from moirae.repair.set_aside import DamagedFolder
from moirae.repair.source_search import RecordSearch
from moirae.repair.step import RepairStep
from moirae.runtime.storage import archived_streams, list_filled_tables, open_storage
from sql.archive import FileCheckGateway

# Below the root of the archive: tables of streams that are not completely copied from a backup.
_COPIES_FOLDER = "copies"


class Repairs:
    """The repairs of one workspace. `backups`: from which files are taken. `open_spark`: called to read
    topics again.

    Methods raise `OSError`, `ArchiverError`, `MoiraeError` and `sql.DatabaseError`.
    """

    def __init__(
        self,
        settings: Settings,
        connection: sql.Connection,
        backups: BackupFiles,
        open_spark: Callable[[], SparkSession],
    ) -> None:
        self._settings = settings
        self._connection = connection
        self._backups = backups
        self._root = open_storage(settings)
        self._dry_run = True
        self._checks = FileCheckGateway(connection)
        self._folder = DamagedFolder(Path(settings.home))
        self._tables = DatabaseTables(settings, connection, self._folder)
        search = RecordSearch(settings, connection, open_spark)
        self._ledger = LedgerRepair(settings, connection, search)

    def run(self, *, dry_run: bool) -> Iterator[RepairStep]:
        """The steps, each after it was done; with `dry_run` none is."""
        self._dry_run = dry_run
        phases: Sequence[Callable[[], Sequence[RepairStep]]] = (
            self._plan_tables,
            self._plan_logs,
            self._plan_files,
            self._tables.plan_differences,
            self._ledger.plan,
        )
        for plan in phases:
            for step in plan():
                if not dry_run:
                    step.run()
                yield step

    def _skip_in_dry_run(self, table: ArchiveTable) -> None:
        """Do not compare the rows of a table that is still damaged."""
        if self._dry_run:
            self._ledger.skip(table.name)
            self._tables.skip(table.name)

    def _schemas(self) -> dict[str, StreamSchema]:
        schemas = archived_streams(self._settings, self._connection)
        return {f"streams/{schema.table_name}": schema for schema in schemas}

    def _plan_tables(self) -> list[RepairStep]:
        """Streams whose table is missing, or was made again without rows, come from a backup.

        What is newer than the backup is compared with the ledger later, as are rows without one.
        """
        steps: list[RepairStep] = []
        root = as_storage(self._root)
        for name, rows in list_filled_tables(self._settings, self._connection).items():
            table = ArchiveTable(name, "stream", root / "streams" / name.removeprefix("streams/"))
            manifest = self._backups.find_table(name)
            copy = root / _COPIES_FOLDER / table.stream
            if not (self._is_lost(table) or copy.list_sizes()):
                continue
            self._skip_in_dry_run(table)
            if manifest is None:
                steps.append(self._plan_new_table(table, rows))
                continue
            steps.append(
                RepairStep(
                    name,
                    f"the table is missing or empty, {rows:,} rows according to the ledger",
                    f"take the table from backup {manifest.name}, with "
                    f"{manifest.tables[name].row_ids.count:,} rows",
                    "what came since the backup, unless its records can be read again",
                    partial(self._restore_table, table, copy, manifest),
                )
            )
        return steps

    def _plan_new_table(self, table: ArchiveTable, rows: int) -> RepairStep:
        return RepairStep(
            table.name,
            f"the table is missing or empty, {rows:,} rows according to the ledger; no backup has it",
            "begin an empty table, and read the rows again as far as something has their records",
            f"{rows:,} rows, except those whose records can be read again",
            partial(self._create_table, table),
        )

    def _create_table(self, table: ArchiveTable) -> None:
        StreamTable(self._root, self._declared(table))  # if it is absent

    def _is_lost(self, table: ArchiveTable) -> bool:
        try:
            version = read_present_version(table)
        except (OSError, ArchiverError, DeltaError):
            return False  # its log is damaged
        return version is None or not version.files

    def _restore_table(self, table: ArchiveTable, copy: Storage, manifest: Manifest) -> None:
        self._folder.set_table_aside(table)
        self._backups.restore_table(table, copy, manifest)

    def _plan_logs(self) -> list[RepairStep]:
        steps: list[RepairStep] = []
        for check in check_tables(self._root, self._checks):
            if check.log.damaged:
                self._skip_in_dry_run(check.table)
                steps += self._plan_log(check)
        return steps

    def _plan_log(self, check: TableCheck) -> Iterator[RepairStep]:
        table = check.table
        commits = [file for file in check.log.damaged if file.kind == "commit"]
        if all(self._backups.find_log_file(table, file.name) for file in commits):
            for file in check.log.damaged:
                yield self._plan_log_file(table, file)
        elif table.kind == "stream":
            yield self._plan_stream_log(check)
        else:
            texts = "; ".join(file.text for file in check.log.damaged)
            yield self._tables.plan_rebuild(table, texts)

    def _plan_log_file(self, table: ArchiveTable, file: DamagedLogFile) -> RepairStep:
        def set_aside() -> None:
            self._folder.set_checkpoint_aside(table, file.name)

        def restore() -> None:
            content = self._backups.find_log_file(table, file.name)
            assert content is not None
            self._folder.set_aside(table, file.name)
            with table.storage.write_stream(file.name) as target:
                target.write(content)

        if file.kind == "commit":
            action = "take the commit from the backup"
            return RepairStep(table.name, file.text, action, "", restore)
        action = "set the file aside: readers take the commits, or an earlier checkpoint"
        return RepairStep(table.name, file.text, action, "", set_aside)

    def _plan_stream_log(self, check: TableCheck) -> RepairStep:
        table = check.table
        declared = self._declared(table)
        repair = plan_log_repair(table, check.log, declared)

        def run() -> None:
            repair_log(table, repair, declared.time)
            for file in check.log.damaged:
                if file.kind == "checkpoint":
                    self._folder.set_checkpoint_aside(table, file.name)

        rows = sum(file.rows for file in repair.added)
        action = (
            f"replace the lost commits by version {repair.version:,}, from the data files: "
            f"{len(repair.added):,} files with {rows:,} rows belong to the table, "
            f"{len(repair.removed):,} were replaced"
        )
        loss = "versions in between"
        if repair.unreadable:
            loss += f"; files that cannot be read: {', '.join(repair.unreadable)}"
        texts = "; ".join(file.text for file in check.log.damaged)
        return RepairStep(table.name, texts, action, loss, run)

    def _declared(self, table: ArchiveTable) -> StreamSchema:
        return self._schemas()[table.name]

    def _plan_files(self) -> list[RepairStep]:
        steps: list[RepairStep] = []
        for check in check_tables(self._root, self._checks):
            if check.files is None:
                continue  # a dry run: its log is damaged
            lost = list(self._plan_restored(check, steps))
            if not lost:
                continue
            if check.table.kind == "stream":
                steps += [self._plan_lost(check.table, file) for file in lost]
            else:
                texts = "; ".join(file.text for file in lost)
                steps.append(self._tables.plan_rebuild(check.table, texts))
        return steps

    def _plan_restored(self, check: TableCheck, steps: list[RepairStep]) -> Iterator[DamagedFile]:
        """Add steps for the damaged files that a backup has; yields the others."""
        assert check.files is not None
        if not check.files.damaged:
            return
        version = read_present_version(check.table)
        assert version is not None
        recorded = self._checks.list_recorded(check.table.name)
        expected = {file.path: file for file in list_expected(version, recorded)}
        for file in check.files.damaged:
            record = expected[file.path]
            entry = self._backups.find_data_file(
                check.table, file.path, record.digest, record.bytes
            )
            if entry is None:
                yield file
                continue

            def restore(path: str = file.path, entry: FileEntry = entry) -> None:
                self._folder.set_aside(check.table, path)
                self._backups.restore_data_file(check.table, path, entry)
                self._checks.forget(check.table.name, [path])

            self._skip_in_dry_run(check.table)
            action = "take the file from the backup"
            steps.append(RepairStep(check.table.name, file.text, action, "", restore))

    def _plan_lost(self, table: ArchiveTable, file: DamagedFile) -> RepairStep:
        self._ledger.expect_lost(table, file.path, self._declared(table))

        def run() -> None:
            remove_files(table, [file.path])
            self._folder.set_aside(table, file.path)
            self._checks.forget(table.name, [file.path])

        action = "set the file aside, and remove it from the table; its rows are listed below"
        return RepairStep(table.name, file.text, action, "", run)
