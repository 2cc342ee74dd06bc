"""Work for chunks in the background, one thing at a time, beside appends and readers.

What is done for a chunk is a *preparation*: a callable that may be killed at any moment and is then called again. The
roller writes nothing to the catalog: it reports what is done, and the one writer records it.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from queue import SimpleQueue

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from deltalake.exceptions import DeltaError

from archiver.chunks.lifecycle import (
    CLUSTER,
    COUNT_ROWS,
    DELETE_CHUNK,
    MaintenanceTask,
    Requirement,
)
from archiver.delta import SequencedTable, StreamSchema, StreamTable, TableSpec, Vacuum
from archiver.errors import ArchiverError, CommitConflict
from archiver.storage import StorageRoot

_LOG = structlog.get_logger()

# Live work goes first: the thread asks the system for less of the processor.
_NICENESS = 10
# Late appends to a closed chunk after which its files are clustered again.
_RECLUSTER_AFTER = 20
# Between two looks for files that nobody needs any more, and logs to gather: seconds at most.
_VACUUM_INTERVAL = 30.0


@dataclass(frozen=True)
class MaintenanceHandler:
    """What is done for chunks, and `prepare`, which does it for the chunk of an id. What it raises of `OSError`,
    `DeltaError` and `ArchiverError` is logged, and it is called again."""

    requirement: Requirement
    handle: Callable[[int], None]


@dataclass(frozen=True)
class MaintenanceResult:
    """A piece of work that is done; `rows`: counted rows by stream and source unit."""

    task: MaintenanceTask
    rows_by_unit: Mapping[tuple[str, int], int] = field(default_factory=dict)


class ChunkMaintenance:
    """Carries out the work that `archiver.chunks.lifecycle` asks for. `retention`: seconds that replaced files stay on disk,
    longer than any reader reads a list of files. `kinds`: the numbered tables whose small files it merges."""

    def __init__(
        self,
        root: StorageRoot,
        schemas: Sequence[StreamSchema],
        file_retention: float,
        sequenced_tables: Sequence[TableSpec] = (),
    ) -> None:
        self._tables = [StreamTable(root, schema) for schema in schemas]
        self._sequenced_tables = [SequencedTable(root, kind) for kind in sequenced_tables]
        self._file_retention = file_retention
        closed = Requirement(CLUSTER, frozenset({"recent", "old"}), _RECLUSTER_AFTER)
        self._handlers = {CLUSTER: MaintenanceHandler(closed, self._cluster_chunk)}
        self.requirements = [one.requirement for one in self._handlers.values()]
        self._results: SimpleQueue[MaintenanceResult] = SimpleQueue()
        self._queued: set[MaintenanceTask] = set()
        self._queue_changed = threading.Condition()
        self._vacuum = Vacuum(file_retention)
        self._scheduler = BackgroundScheduler(
            executors={"default": ThreadPoolExecutor(1)}, timezone="UTC"
        )
        self._scheduler.start()
        self._schedule_vacuum()

    def submit(self, tasks: Iterable[MaintenanceTask]) -> None:
        """Queue what is not queued yet."""
        for one in tasks:
            with self._queue_changed:
                if one in self._queued:
                    continue
                self._queued.add(one)
            self._scheduler.add_job(self._run, args=[one], misfire_grace_time=None)

    def collect_results(self) -> list[MaintenanceResult]:
        """What has been done since the last call."""
        found = []
        while not self._results.empty():
            found.append(self._results.get())
        return found

    def wait(self) -> None:
        """Until all that is queued has been tried."""
        with self._queue_changed:
            self._queue_changed.wait_for(lambda: not self._queued)

    def stop(self) -> None:
        """Begin nothing more; work at hand ends with the process, and is begun again by the next."""
        self._scheduler.shutdown(wait=False)

    def _run(self, work: MaintenanceTask) -> None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        try:
            self._results.put(self._execute(work))
        except (ArchiverError, DeltaError, OSError, CommitConflict) as error:
            _LOG.warning(
                "not done for a chunk",
                action=f"{work.name}_failed",
                chunk=work.chunk,
                error=str(error),
            )
        finally:
            with self._queue_changed:
                self._queued.discard(work)
                self._queue_changed.notify_all()

    def _execute(self, work: MaintenanceTask) -> MaintenanceResult:
        if work.name == COUNT_ROWS:
            return MaintenanceResult(work, self._count_rows(work.chunk))
        if work.name == DELETE_CHUNK:
            for table in self._tables:
                table.delete_chunk(work.chunk)
        else:
            self._handlers[work.name].handle(work.chunk)
        return MaintenanceResult(work)

    def _cluster_chunk(self, chunk: int) -> None:
        for table in self._tables:
            table.cluster(chunk)

    def _count_rows(self, chunk: int) -> dict[tuple[str, int], int]:
        rows: Counter[tuple[str, int]] = Counter()
        for table in self._tables:
            table.refresh()
            rows.update(
                (table.schema.name, unit)
                for unit in table.read(["_unit"], chunk)["_unit"].to_pylist()
            )
        return dict(rows)

    def _schedule_vacuum(self) -> None:
        at = datetime.now(UTC) + timedelta(seconds=min(_VACUUM_INTERVAL, self._file_retention / 4))
        self._scheduler.add_job(self._run_vacuum, "date", run_date=at, misfire_grace_time=None)

    def _run_vacuum(self) -> None:
        """Merge small files, delete those that have been no part of a table for longer than readers may need them, and
        gather logs."""
        try:
            for table in self._sequenced_tables:
                table.compact()
            self._vacuum.run([*self._tables, *self._sequenced_tables], time.monotonic())
        except (ArchiverError, DeltaError, OSError, CommitConflict) as error:
            _LOG.warning("not swept", action="sweep_failed", error=str(error))
        finally:
            self._schedule_vacuum()
