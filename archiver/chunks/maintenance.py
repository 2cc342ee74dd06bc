"""Maintenance of chunks in a background thread, one task at a time, beside appends and readers.

A task may be killed at any moment and is then run again by the next process. Nothing is written to
the catalog here: results are collected by the archive writer, which records them.
"""

import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from queue import SimpleQueue

import pyarrow as pa
import structlog
from deltalake.exceptions import DeltaError

from archiver.background import BackgroundRunner
from archiver.chunks.lifecycle import (
    CLUSTER,
    COMPACT,
    COUNT_ROWS,
    DELETE_CHUNK,
    MaintenanceTask,
    Requirement,
    split_task,
)
from archiver.delta import (
    NOTHING_SETTLED,
    RewriteFunction,
    SettledPlaces,
    StreamSchema,
    StreamTable,
    TableFiles,
    Vacuum,
)
from archiver.delta.sequenced_table import SequencedTable, TableSpec
from archiver.errors import ArchiverError, CommitConflict
from archiver.periodic import Periodic
from archiver.storage import StorageRoot

_LOG = structlog.get_logger()

# Niceness of the maintenance thread: live processing takes precedence.
_NICENESS = 10
# Appends of late rows to a closed chunk that make maintenance re-cluster its files.
_RECLUSTER_AFTER = 20
# Longest time between two runs of the vacuum.
_VACUUM_INTERVAL = 30.0  # seconds

# Errors after which a task is logged and tried again later.
_RECOVERABLE_ERRORS = (ArchiverError, DeltaError, OSError, CommitConflict)


@dataclass(frozen=True)
class MaintenanceHandler:
    """A requirement, and the function that meets it for the chunk of an id."""

    requirement: Requirement
    handle: Callable[[int], None]


@dataclass(frozen=True)
class MaintenanceResult:
    """A finished task. `rows_by_unit`: number of counted rows by stream and source unit id.
    `error`: why it failed, so that the chunk stays as it is; None: it did not.
    """

    task: MaintenanceTask
    rows_by_unit: Mapping[tuple[str, int], int] = field(default_factory=dict)
    error: str | None = None


class ChunkMaintenance:
    """Runs the tasks planned by `archiver.chunks.lifecycle`, and vacuums the tables periodically.

    `file_retention`: seconds that replaced files stay on disk; must exceed the time that any reader
    uses a list of files. `sequenced_tables`: tables whose small files are compacted. `history`:
    seconds that superseded versions of the tables stay readable; None: no longer than files.
    """

    def __init__(
        self,
        root: StorageRoot,
        schemas: Sequence[StreamSchema],
        file_retention: float,
        sequenced_tables: Sequence[TableSpec] = (),
        history: float | None = None,
    ) -> None:
        # How files are rewritten when they are clustered.
        self.rewrite: RewriteFunction = TableFiles.write_compact
        self._tables = [StreamTable(root, schema) for schema in schemas]
        self._sequenced_tables = [SequencedTable(root, spec) for spec in sequenced_tables]
        if history is not None:
            for stream_table in self._tables:
                stream_table.set_history(history)
            for sequenced_table in self._sequenced_tables:
                sequenced_table.set_history(history)
        clustering = Requirement(CLUSTER, frozenset({"recent", "old"}), _RECLUSTER_AFTER)
        self._handlers = {CLUSTER: MaintenanceHandler(clustering, self._cluster_chunk)}
        self.requirements = [handler.requirement for handler in self._handlers.values()]
        self._settled_places: Mapping[str, SettledPlaces] = {}
        self._results: SimpleQueue[MaintenanceResult] = SimpleQueue()
        self._queued: set[MaintenanceTask] = set()
        self._queue_changed = threading.Condition()
        self._vacuum = Vacuum(file_retention, history or 0.0)
        interval = min(_VACUUM_INTERVAL, file_retention / 4)
        self._vacuum_task = Periodic("vacuum", interval, self._run_vacuum, first_after=interval)
        self._runner = BackgroundRunner([self._vacuum_task])

    @property
    def is_idle(self) -> bool:
        """Whether no task is queued or runs."""
        return not self._queued

    def submit(
        self,
        tasks: Iterable[MaintenanceTask],
        settled_places: Mapping[str, SettledPlaces] | None = None,
    ) -> None:
        """Queue the tasks that are not queued already.

        `settled_places`: which rows no source will be read again for, by stream; None: as before.
        """
        if settled_places is not None:
            self._settled_places = settled_places
        for task in tasks:
            with self._queue_changed:
                if task in self._queued:
                    continue
                self._queued.add(task)
            self._runner.submit(self._run, task)

    def collect_results(self) -> list[MaintenanceResult]:
        """The tasks finished since the last call."""
        results = []
        while not self._results.empty():
            results.append(self._results.get())
        return results

    def wait(self) -> None:
        """Block until all queued tasks have finished or failed."""
        with self._queue_changed:
            self._queue_changed.wait_for(lambda: not self._queued)

    def stop(self) -> None:
        """Start no further task, without waiting for the running one."""
        self._runner.stop()

    def _run(self, task: MaintenanceTask) -> None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        try:
            self._results.put(self._execute(task))
        except _RECOVERABLE_ERRORS as error:
            _LOG.warning(
                "chunk maintenance failed",
                action="maintenance_failed",
                task=task.name,
                chunk=task.chunk,
                error=str(error),
            )
            if not isinstance(error, CommitConflict):  # another process was faster
                self._results.put(MaintenanceResult(task, error=str(error) or type(error).__name__))
        finally:
            with self._queue_changed:
                self._queued.discard(task)
                self._queue_changed.notify_all()

    def _execute(self, task: MaintenanceTask) -> MaintenanceResult:
        name, stream = split_task(task.name)
        tables = [table for table in self._tables if stream in ("", table.schema.name)]
        if name == COUNT_ROWS:
            return MaintenanceResult(task, _count_rows(tables, task.chunk))
        if name == DELETE_CHUNK:
            for table in tables:
                table.delete_chunk(task.chunk)
        elif name == COMPACT:
            self._cluster_chunk(task.chunk)
        else:
            self._handlers[task.name].handle(task.chunk)
        return MaintenanceResult(task)

    def _cluster_chunk(self, chunk: int) -> None:
        for table in self._tables:
            settled_places = self._settled_places.get(table.schema.name, NOTHING_SETTLED)
            table.cluster(chunk, self.rewrite, settled_places)

    def _adopt_foreign_files(self) -> None:
        """A file that cannot be read does not stop the maintenance of other tables."""
        for table in self._tables:
            try:
                table.adopt_foreign_files()
            except (*_RECOVERABLE_ERRORS, pa.ArrowException) as error:
                _LOG.warning(
                    "rows of another program not rewritten",
                    action="adoption_failed",
                    stream=table.schema.name,
                    error=str(error),
                )

    def _run_vacuum(self) -> None:
        """Compact the sequenced tables, adopt files, delete unreferenced ones, checkpoint logs."""
        try:
            for table in self._sequenced_tables:
                table.compact()
            self._adopt_foreign_files()
            self._vacuum.run([*self._tables, *self._sequenced_tables], time.monotonic())
        except _RECOVERABLE_ERRORS as error:
            _LOG.warning("vacuum failed", action="vacuum_failed", error=str(error))
        finally:
            self._vacuum_task.restart()  # a long vacuum leaves time for other tasks


def _count_rows(tables: Iterable[StreamTable], chunk: int) -> dict[tuple[str, int], int]:
    """Number of rows of some streams in a chunk by stream and source unit id."""
    rows_by_unit: dict[tuple[str, int], int] = {}
    for table in tables:
        table.refresh()
        units = table.read_accounted(["_unit"], chunk)["_unit"].to_pylist()
        for unit, rows in Counter(units).items():
            rows_by_unit[table.schema.name, unit] = rows
    return rows_by_unit
