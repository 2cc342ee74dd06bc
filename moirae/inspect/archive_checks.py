"""Checks of the files of all tables of an archive: logs, and data files by their digests."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from archiver.delta import (
    ArchiveTable,
    FileCheck,
    LogCheck,
    check_files,
    check_log,
    list_tables,
)
from archiver.storage import StorageRoot
from moirae.inspect.finding import Finding
from sql.archive import FileCheckGateway


@dataclass(frozen=True)
class TableCheck:
    """A table. `files`: None where its log is damaged."""

    table: ArchiveTable
    log: LogCheck
    files: FileCheck | None

    @property
    def is_damaged(self) -> bool:
        """Whether its rows cannot be read as they were written."""
        return self.files is None or bool(self.files.damaged)

    @property
    def name(self) -> str:
        """Of a stream its name, of other tables their folder."""
        return self.table.stream if self.table.kind == "stream" else self.table.name


def check_tables(root: StorageRoot, checks: FileCheckGateway) -> list[TableCheck]:
    """Read log and data files of all tables. Raises `OSError` and `ArchiverError`."""
    tables: list[TableCheck] = []
    for table in list_tables(root):
        log = check_log(table.storage)
        if log.newest < 0 and not log.damaged:
            continue  # without its first commit yet
        files = None
        if not log.damaged:
            files = check_files(table, checks.list_recorded(table.name))
            if files is None:
                continue  # removed meanwhile
        tables.append(TableCheck(table, log, files))
    return tables


def describe_tables(tables: Sequence[TableCheck]) -> Iterator[Finding]:
    """Findings of `moirae doctor`."""
    for table in tables:
        logs = [file.text for file in table.log.damaged]
        yield Finding(f"{table.name}: its log can be read", logs, f"version {table.log.newest:,}")
        if table.files is None:
            continue
        problems = [file.text for file in table.files.damaged]
        summary = f"{table.files.count:,} files, {table.files.compared:,} of them by SHA-256"
        yield Finding(f"{table.name}: all data files are as they were written", problems, summary)
