"""Reads the data files of the archive again, slowly, and compares them with their digests.

A changed byte may decode to another value, so that no reader notices it.
"""

import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta

import structlog
from deltalake.exceptions import DeltaError

import sql
from archiver.clock import utc_now
from archiver.delta import (
    ArchiveTable,
    DamagedFile,
    ExpectedFile,
    check_file,
    list_expected,
    list_tables,
    read_present_version,
)
from archiver.errors import ArchiverError
from archiver.storage import StorageRoot
from moirae.config import Settings
from moirae.errors import MoiraeError
from moirae.runtime import connect_database
from moirae.runtime.storage import open_storage
from sql.archive import FileCheckGateway, FileCheckRow

_LOG = structlog.get_logger()

_MAX_INTERVAL = 300.0  # seconds between two runs
_RUNS_PER_PERIOD = 10  # at least
_RUN_BYTES = 256 << 20  # of files that one run reads: on average less than a megabyte a second
_NICENESS = 15
_ERRORS = (sql.DatabaseError, MoiraeError, ArchiverError, DeltaError, OSError)


def select_due(
    files: Sequence[ExpectedFile], checks: dict[str, FileCheckRow], before: datetime
) -> list[ExpectedFile]:
    """The files to read: of unknown digest, damaged before, or last read before a time; these first.

    A file with a known digest that was never seen was just written: it is not read yet.
    """

    def is_due(file: ExpectedFile) -> bool:
        check = checks.get(file.path)
        if check is None:
            return file.digest is None
        return check.problem is not None or check.checked_at < before

    def order(file: ExpectedFile) -> tuple[bool, str]:
        check = checks.get(file.path)
        return check is not None, "" if check is None else check.checked_at.isoformat()

    return sorted(filter(is_due, files), key=order)


class FileChecks:
    """One run after the other. `period`: within which each file is read again."""

    def __init__(
        self,
        root: StorageRoot,
        checks: FileCheckGateway,
        period: timedelta,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self._root = root
        self._checks = checks
        self._period = period
        self._clock = clock

    def run_once(self) -> None:
        """Read the files that are due, up to a number of bytes."""
        tables = list_tables(self._root)
        self._checks.forget_other_tables([table.name for table in tables])
        unread_bytes = _RUN_BYTES
        for table in tables:
            unread_bytes = self._check_table(table, unread_bytes)

    def _check_table(self, table: ArchiveTable, unread_bytes: int) -> int:
        version = read_present_version(table)
        if version is None:
            return unread_bytes
        checks = {check.path: check for check in self._checks.list_of_table(table.name)}
        recorded = {path: row.digest for path, row in checks.items() if row.digest is not None}
        files = list_expected(version, recorded)
        self._checks.forget(table.name, checks.keys() - version.files.keys())
        new = [file for file in files if file.digest is not None and file.path not in checks]
        self._checks.put(table.name, [(file.path, None, None) for file in new])
        for file in select_due(files, checks, self._clock() - self._period):
            if unread_bytes <= 0:
                break
            unread_bytes -= file.bytes
            digest, damage = check_file(table, file)
            if damage is not None and not self._is_present(table, file.path):
                continue
            if damage is not None:
                self._report(table, damage)
            in_log = file.path in version.digests
            self._checks.put(
                table.name,
                [
                    (
                        file.path,
                        None if in_log else file.digest or digest,
                        None if damage is None else damage.text,
                    )
                ],
            )
        return unread_bytes

    def _is_present(self, table: ArchiveTable, path: str) -> bool:
        """Whether a file is part of the newest version: one that was replaced may be deleted."""
        version = read_present_version(table)
        return version is not None and path in version.files

    def _report(self, table: ArchiveTable, damage: DamagedFile) -> None:
        _LOG.error(
            "a data file is damaged: run `moirae doctor --repair --dry-run`",
            action="file_damaged",
            table=table.name,
            problem=damage.text,
        )


def run_file_checks(settings: Settings, stop: threading.Event) -> None:
    """Check files until `stop` is set. Where database or archive are away, it goes on later."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
    period = settings.check_files
    interval = min(_MAX_INTERVAL, period.total_seconds() / _RUNS_PER_PERIOD)
    while not stop.wait(interval):
        try:
            with connect_database(settings, "check files") as connection:
                FileChecks(open_storage(settings), FileCheckGateway(connection), period).run_once()
        except _ERRORS as error:
            _LOG.warning("checking files failed", action="file_checks_failed", error=str(error))
