"""Rewrites of files for changed columns, in a thread beside the live process.

The input of a stream waits until its files are rewritten; other streams go on. What fails is tried
again at intervals. A value that would change ends the rewrite of its stream: the declaration has to
be corrected.
"""

import errno
import os
import shutil
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import structlog
from deltalake.exceptions import DeltaError

from archiver.delta import ColumnRewrite, RewriteProgress, StreamTable
from archiver.errors import ArchiverError, ValueLost
from archiver.storage import LocalStorage, StorageRoot
from archiver.threads import start_daemon
from moirae.errors import MoiraeError
from moirae.runtime.storage import DISK_RESERVE
from sql.archive import ColumnRewriteGateway, RewriteState

_LOG = structlog.get_logger()

_NICENESS = 10  # live processing takes precedence
_RETRY_INTERVAL = 10.0  # seconds
_MIB = 1 << 20  # bytes
_NOTHING_DONE = RewriteProgress(0, 0, 0)
_MIN_RESERVE_SHARE = 20  # of a small disk, one part in so many stays free


@dataclass(frozen=True)
class RewriteStatus:
    """How far the rewrite of one stream is; see `ColumnRewriteRow`."""

    state: RewriteState
    progress: RewriteProgress
    reason: str | None = None


class _Stopped(MoiraeError):
    """The process ends: the next one continues."""


class ColumnRewrites:
    """All rewrites of one run.

    `tables`: of the process that appends, by stream; they are refreshed in its thread, by `update`.
    """

    def __init__(
        self,
        root: StorageRoot,
        tables: Mapping[str, StreamTable],
        gateway: ColumnRewriteGateway,
    ) -> None:
        self._root = root
        self._tables = tables
        self._gateway = gateway
        self._waiting_streams = [name for name, table in tables.items() if table.is_rewriting]
        # Written by the thread, each value at once.
        self._statuses = {
            name: RewriteStatus("checking", _NOTHING_DONE) for name in self._waiting_streams
        }
        self._stored: dict[str, RewriteStatus] = {}
        self._is_stopping = threading.Event()
        gateway.delete_others(self._waiting_streams)

    @property
    def waiting_streams(self) -> list[str]:
        """The streams whose files are not rewritten yet."""
        return list(self._waiting_streams)

    def start(self) -> None:
        """Start the thread, if there is anything to rewrite."""
        for name in self._waiting_streams:
            columns = ", ".join(self._tables[name].declaration.changes.rewritten)
            _LOG.info(
                "files are rewritten for changed columns; new input of the stream waits",
                action="column_rewrite_started",
                stream=name,
                columns=columns,
            )
        if self._waiting_streams:
            start_daemon(self._run, "column rewrite")

    def stop(self) -> None:
        """End the thread at its next step."""
        self._is_stopping.set()

    def update(self) -> None:
        """Store how far the rewrites are, and let streams go on whose files are rewritten."""
        for name in self.waiting_streams:
            table = self._tables[name]
            table.refresh()
            if not table.is_rewriting:
                self._waiting_streams.remove(name)
                self._gateway.delete_others(self._waiting_streams)
                _LOG.info("columns changed", action="columns_changed", stream=name)
                continue
            status = self._statuses[name]
            if status != self._stored.get(name):
                self._store(name, status)

    def _store(self, name: str, status: RewriteStatus) -> None:
        self._gateway.put(
            name,
            list(self._tables[name].declaration.changes.rewritten),
            status.state,
            steps_done=status.progress.steps_done,
            steps=status.progress.steps,
            bytes_needed=status.progress.bytes_needed,
            reason=status.reason,
        )
        self._stored[name] = status

    def require_success(self) -> None:
        """Raise `MoiraeError` if a rewrite failed: a drain does not wait for it."""
        for name in self._waiting_streams:
            status = self._statuses[name]
            if status.state in ("failing", "refused"):
                raise MoiraeError(f"stream {name}: {status.reason}")

    def _run(self) -> None:
        """Rewrite the streams one by one, those that failed again after an interval."""
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        remaining = list(self._statuses)
        with suppress(_Stopped):
            while remaining:
                remaining = [name for name in remaining if not self._try(name)]
                if remaining and self._is_stopping.wait(_RETRY_INTERVAL):
                    return

    def _try(self, name: str) -> bool:
        """Rewrite the files of a stream; returns whether there is nothing more to do for it."""
        rewrite = ColumnRewrite(StreamTable(self._root, self._tables[name].schema))
        try:
            rewrite.check_values(partial(self._report, name, "checking"))
            rewrite.run(partial(self._report, name, "rewriting"))
        except _Stopped:
            raise
        except ValueLost as error:
            self._fail(name, "refused", str(error))
            return True
        except (ArchiverError, DeltaError, OSError, pa.ArrowException) as error:
            self._fail(name, "failing", _describe(error))
            return False
        except Exception as error:  # of this thread, which must not end in silence
            _LOG.exception("files not rewritten", action="column_rewrite_crashed", stream=name)
            self._fail(name, "failing", f"{type(error).__name__}: {error}")
            return False
        return True

    def _report(self, name: str, state: RewriteState, progress: RewriteProgress) -> None:
        """Note how far a rewrite is, before its next step. Raises `OSError` on a full disk."""
        if self._is_stopping.is_set():
            raise _Stopped
        self._statuses[name] = RewriteStatus(state, progress)
        storage = self._tables[name].storage
        if isinstance(storage, LocalStorage):
            disk = shutil.disk_usage(storage.data_folder)
            reserve = min(DISK_RESERVE, disk.total // _MIN_RESERVE_SHARE)
            if disk.free < progress.bytes_needed + reserve:
                raise OSError(
                    errno.ENOSPC,
                    f"the disk is full: the rewritten files need {progress.bytes_needed // _MIB:,} "
                    f"MiB, and {reserve // _MIB:,} MiB must stay free, but {disk.free // _MIB:,} "
                    f"MiB are free at {storage.data_folder}: free some space",
                )

    def _fail(self, name: str, state: RewriteState, reason: str) -> None:
        previous = self._statuses[name]
        self._statuses[name] = RewriteStatus(state, previous.progress, reason)
        if previous.reason != reason:
            _LOG.warning(
                "files not rewritten for changed columns",
                action="column_rewrite_failed",
                stream=name,
                reason=reason,
            )


def _describe(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        file = f"{error.filename}: " if error.filename else ""
        return f"{file}{error.strerror}"
    return str(error).partition("\n")[0]
