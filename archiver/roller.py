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

from archiver.errors import ArchiverError
from archiver.lifecycle import CLUSTER, COUNT, FORGET, Need, Work
from archiver.log import Superseded
from archiver.numbered import Kind, NumberedTable
from archiver.place import Root
from archiver.schema import StreamSchema
from archiver.sweep import Sweeper
from archiver.table import StreamTable

_LOG = structlog.get_logger()

# Live work goes first: the thread asks the system for less of the processor.
_NICENESS = 10
# Late appends to a closed chunk after which its files are clustered again.
_RECLUSTER = 20
# Between two looks for files that nobody needs any more, and logs to gather: seconds at most.
_SWEEP = 30.0


@dataclass(frozen=True)
class Preparation:
    """What is done for chunks, and `prepare`, which does it for the chunk of an id. What it raises of `OSError`,
    `DeltaError` and `ArchiverError` is logged, and it is called again."""

    need: Need
    prepare: Callable[[int], None]


@dataclass(frozen=True)
class Done:
    """A piece of work that is done; `rows`: counted rows by stream and source unit."""

    work: Work
    rows: Mapping[tuple[str, int], int] = field(default_factory=dict)


class Roller:
    """Carries out the work that `archiver.lifecycle` asks for. `retention`: seconds that replaced files stay on disk,
    longer than any reader reads a list of files. `kinds`: the numbered tables whose small files it merges."""

    def __init__(
        self, root: Root, schemas: Sequence[StreamSchema], retention: float, kinds: Sequence[Kind] = ()
    ) -> None:
        self._tables = [StreamTable(root, schema) for schema in schemas]
        self._numbered = [NumberedTable(root, kind) for kind in kinds]
        self._retention = retention
        closed = Need(CLUSTER, frozenset({"recent", "old"}), _RECLUSTER)
        self._preparations = {CLUSTER: Preparation(closed, self._cluster)}
        self.needs = [one.need for one in self._preparations.values()]
        self._done: SimpleQueue[Done] = SimpleQueue()
        self._queued: set[Work] = set()
        self._changed = threading.Condition()
        self._sweeper = Sweeper(retention)
        self._scheduler = BackgroundScheduler(executors={"default": ThreadPoolExecutor(1)}, timezone="UTC")
        self._scheduler.start()
        self._sweep_later()

    def take(self, work: Iterable[Work]) -> None:
        """Queue what is not queued yet."""
        for one in work:
            with self._changed:
                if one in self._queued:
                    continue
                self._queued.add(one)
            self._scheduler.add_job(self._do, args=[one], misfire_grace_time=None)

    def done(self) -> list[Done]:
        """What has been done since the last call."""
        found = []
        while not self._done.empty():
            found.append(self._done.get())
        return found

    def wait(self) -> None:
        """Until all that is queued has been tried."""
        with self._changed:
            self._changed.wait_for(lambda: not self._queued)

    def stop(self) -> None:
        """Begin nothing more; work at hand ends with the process, and is begun again by the next."""
        self._scheduler.shutdown(wait=False)

    def _do(self, work: Work) -> None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        try:
            self._done.put(self._carried_out(work))
        except (ArchiverError, DeltaError, OSError, Superseded) as error:
            _LOG.warning("not done for a chunk", action=f"{work.name}_failed", chunk=work.chunk, error=str(error))
        finally:
            with self._changed:
                self._queued.discard(work)
                self._changed.notify_all()

    def _carried_out(self, work: Work) -> Done:
        if work.name == COUNT:
            return Done(work, self._count(work.chunk))
        if work.name == FORGET:
            for table in self._tables:
                table.forget(work.chunk)
        else:
            self._preparations[work.name].prepare(work.chunk)
        return Done(work)

    def _cluster(self, chunk: int) -> None:
        for table in self._tables:
            table.cluster(chunk)

    def _count(self, chunk: int) -> dict[tuple[str, int], int]:
        rows: Counter[tuple[str, int]] = Counter()
        for table in self._tables:
            table.refresh()
            rows.update((table.schema.name, unit) for unit in table.read(["_unit"], chunk)["_unit"].to_pylist())
        return dict(rows)

    def _sweep_later(self) -> None:
        at = datetime.now(UTC) + timedelta(seconds=min(_SWEEP, self._retention / 4))
        self._scheduler.add_job(self._sweep, "date", run_date=at, misfire_grace_time=None)

    def _sweep(self) -> None:
        """Merge small files, delete those that have been no part of a table for longer than readers may need them, and
        gather logs."""
        try:
            for table in self._numbered:
                table.merge()
            self._sweeper.sweep([*self._tables, *self._numbered], time.monotonic())
        except (ArchiverError, DeltaError, OSError, Superseded) as error:
            _LOG.warning("not swept", action="sweep_failed", error=str(error))
        finally:
            self._sweep_later()
