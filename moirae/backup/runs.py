"""Runs of backups: one at a time, recorded in the database; by a schedule or by a command."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from contextlib import suppress
from datetime import timedelta

import structlog
from deltalake.exceptions import DeltaError

import sql
from archiver import priority
from archiver.errors import ArchiverError
from archiver.threads import start_thread
from moirae.backup.creation import BackupOptions, create_backup
from moirae.backup.destination import open_scheduled
from moirae.backup.erased_list import store_list
from moirae.backup.manifest import Manifest
from moirae.backup.repository import Repository
from moirae.config import BackupSettings, Settings
from moirae.errors import Conflict, MoiraeError, Stopped, UsageError
from moirae.runtime import (
    Role,
    connect_database,
    describe_error,
    read_backup_state,
    record_failure,
    watch_parent,
)
from moirae.runtime.storage import check_generation
from sql.processes import ProcessGateway
from sql.workspace import BackupGateway

_LOG = structlog.get_logger()

_HEARTBEAT_INTERVAL = 2.0  # seconds
# Pause after a backup that failed; a shorter interval of the schedule takes precedence.
_RETRY_AFTER = timedelta(minutes=5)
_ROLE_TIMEOUT = 15.0  # seconds to wait for a predecessor to release role or lock
_LOCK_POLL = 0.2  # seconds
_END_TIMEOUT = 5.0  # seconds to wait for a backup that was told to stop
_RECORDS_AGE = timedelta(days=400)
_NICENESS = 10
# The lock of the backup that runs, apart from the role of the process that runs the schedule.
_LOCK = "backup in progress"


def back_up(
    settings: Settings, repository: Repository, options: BackupOptions, keep: int | None = None
) -> Manifest:
    """Make a backup, and remove all but the newest `keep`; None: remove none.

    Raises `Conflict` if another one of the workspace is in progress, `UsageError` for a folder that
    would be lost with the workspace, and as `create_backup`.
    """
    _check_apart(settings, repository)
    with connect_database(settings, "backup record") as connection:
        hold_backup_lock(connection)
        check_generation(settings, connection)
        return _Run(connection, settings, repository).run(options, keep)


def _check_apart(settings: Settings, repository: Repository) -> None:
    """Raise `UsageError` unless the backups are outside of what they are made of."""
    for location in (str(settings.home), settings.archive):
        if repository.is_within(location):
            raise UsageError(
                f"{repository}: is within {location}, which is backed up: use a folder on another "
                "disk or machine"
            )


def lower_priority() -> None:
    """Let live work take precedence over this process, which makes backups."""
    priority.lower_priority(_NICENESS)


def hold_backup_lock(connection: sql.Connection) -> None:
    """Keep others from making backups until the connection is closed. Raises `Conflict`.

    Waits as long as the server may take to notice that a killed backup is gone.
    """
    processes = ProcessGateway(connection)
    deadline = time.monotonic() + _ROLE_TIMEOUT
    while not processes.try_lock(_LOCK):
        if time.monotonic() > deadline:
            raise Conflict("another backup, or a repair, of this workspace is in progress")
        time.sleep(_LOCK_POLL)


class _Run:
    """A backup that is recorded in the database."""

    def __init__(
        self, connection: sql.Connection, settings: Settings, repository: Repository
    ) -> None:
        self._connection = connection
        self._records = BackupGateway(connection)
        self._settings = settings
        self._repository = repository

    def run(self, options: BackupOptions, keep: int | None) -> Manifest:
        last = self._records.get_last(str(self._repository))
        record = self._records.start(str(self._repository))
        try:
            if last is not None and self._repository.is_gone():
                raise Conflict(
                    f"{self._repository}: is empty, although backup {last.name} was made there: is "
                    "its disk mounted? To begin anew there, create the folder `backups` in it"
                )
            manifest = create_backup(self._settings, self._repository, options)
            store_list(self._connection, self._repository)
        except Stopped:
            raise
        except Exception as error:
            with suppress(sql.DatabaseError):
                self._records.fail(record, describe_error(error))
            raise
        self._records.finish(
            record,
            name=manifest.name,
            taken_at=manifest.taken_at,
            rows=manifest.rows,
            bytes=manifest.bytes,
            new_bytes=manifest.new_bytes,
        )
        self._records.delete_before(_RECORDS_AGE)
        if keep is not None:
            with suppress(Stopped):
                self._remove_expired(keep, options.check_stop)
        return manifest

    def _remove_expired(self, keep: int, check_stop: Callable[[], None]) -> None:
        expired = self._repository.survey().list_expired(keep)
        if expired:
            self._repository.remove_backups(expired)
            self._repository.remove_unused_files(check_stop)


def run_backups(settings: Settings, stop: threading.Event, parent: int | None = None) -> None:
    """Make backups as the workspace file says, until `stop` is set. Raises `MoiraeError`.

    A backup that fails is tried again later; its error is in the status. One that runs when `stop`
    is set is not complete: the next one continues it.
    """
    if settings.backup is None:
        raise UsageError(f"{settings.file}: no backups are scheduled: add the key `backup`")
    watch_parent(parent, stop)
    lower_priority()
    with connect_database(settings, "backup process") as connection:
        check_generation(settings, connection)
        role = Role(connection, "backup", _ROLE_TIMEOUT)
        schedule = _BackupSchedule(settings, settings.backup, connection, stop)
        with record_failure(role):
            while not stop.is_set():
                role.fence()
                role.heartbeat(schedule.run_once())
                stop.wait(_HEARTBEAT_INTERVAL)
            schedule.await_end()
        role.heartbeat("ended")


class _BackupSchedule:
    """Makes a backup, in a thread, when the last one is older than the interval."""

    def __init__(
        self,
        settings: Settings,
        backup: BackupSettings,
        connection: sql.Connection,
        stop: threading.Event,
    ) -> None:
        self._settings = settings
        self._backup = backup
        self._stop = stop
        self._connection = connection
        self._repository = open_scheduled(backup)
        self._running: Future[None] | None = None

    def run_once(self) -> str:
        """Start a backup if one is due; return the activity of the process."""
        if self._running is not None:
            if not self._running.done():
                return "backing up"
            self._running.result()
            self._running = None
        if self._is_due():
            self._running = start_thread(self._back_up, "backup")
        return "running"

    def await_end(self) -> None:
        """Wait until a backup that runs has noticed the stop, but not for the end of a large file."""
        if self._running is not None:
            wait([self._running], _END_TIMEOUT)

    def _check_stop(self) -> None:
        if self._stop.is_set():
            raise Stopped

    def _back_up(self) -> None:
        options = BackupOptions(check_stop=self._check_stop)
        try:
            manifest = back_up(self._settings, self._repository, options, self._backup.keep)
        except Stopped:
            _LOG.info("backup was stopped, the next one continues it", action="backup_stopped")
            return
        except (MoiraeError, ArchiverError, DeltaError, OSError) as error:
            _LOG.error("backup failed", action="backup_failed", error=describe_error(error))
            return
        _LOG.info(
            "backup is complete",
            action="backup_complete",
            backup=manifest.name,
            rows=manifest.rows,
            new_bytes=manifest.new_bytes,
        )

    def _is_due(self) -> bool:
        state = read_backup_state(self._connection, self._backup)
        # Times lie in the future if a clock was set back: a backup is due, too.
        never = timedelta(0)
        every = self._backup.every
        if state.age is not None and never <= state.age < every:
            return False
        if state.failure is None:
            return True
        failed = state.now - state.failure.started_at
        return not never <= failed < min(_RETRY_AFTER, every)
