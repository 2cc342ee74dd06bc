"""Closed chunks are clustered in the background, one at a time, beside appends and readers."""

import os
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

import structlog
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler
from deltalake.exceptions import DeltaError

from archiver.schema import StreamSchema
from archiver.table import StreamTable

_LOG = structlog.get_logger()

# Live work goes first: the thread asks the system for less of the processor.
_NICENESS = 10


class Roller:
    """Rewrites files of closed chunks clustered by key and time. Losing it half-way loses nothing: it is repeated."""

    def __init__(self, root: Path, schemas: Sequence[StreamSchema]) -> None:
        self._root = root
        self._schemas = schemas
        self._done: SimpleQueue[int] = SimpleQueue()
        self._waiting = 0
        self._changed = threading.Condition()
        self._scheduler = BackgroundScheduler(executors={"default": ThreadPoolExecutor(1)}, timezone="UTC")
        self._scheduler.start()

    def cluster(self, chunks: Iterable[int]) -> None:
        """Queue closed chunks."""
        for chunk in chunks:
            with self._changed:
                self._waiting += 1
            self._scheduler.add_job(self._cluster, args=[chunk], id=f"cluster {chunk}", misfire_grace_time=None)

    def done(self) -> list[int]:
        """Chunks that have been clustered since the last call."""
        found = []
        while not self._done.empty():
            found.append(self._done.get())
        return found

    def wait(self) -> None:
        """Until all queued chunks have been tried."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting == 0)

    def stop(self) -> None:
        """Begin nothing more; a rewrite at hand ends with the process, and is begun again by the next."""
        self._scheduler.shutdown(wait=False)

    def _cluster(self, chunk: int) -> None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        try:
            for schema in self._schemas:
                table = StreamTable(self._root, schema)
                if chunk in table.chunks():
                    table.cluster(chunk)
            self._done.put(chunk)
        except (DeltaError, OSError) as error:
            _LOG.warning("chunk not clustered", action="cluster_failed", chunk=chunk, error=str(error))
        finally:
            with self._changed:
                self._waiting -= 1
                self._changed.notify_all()
