"""The engines of this process, each for one query at a time, and the threads that ask them."""

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import structlog

from recall.engines import EngineRouter
from recall.errors import Cancelled, EngineLost
from recall.ledger import Ledger, Task

Result = TypeVar("Result")

_LOG = structlog.get_logger()
# Seconds for a query that was given up to end.
_CANCEL_GRACE = 10.0
# A fault of the software, as sysexits.h names it.
_EXIT_SOFTWARE_ERROR = 70


@dataclass(frozen=True)
class QuerySlot:
    """What a query needs: an engine, and whether its answer is still wanted."""

    engines: EngineRouter
    cancelled: threading.Event = field(default_factory=threading.Event)

    def raise_if_interrupted(self, error: Exception) -> None:
        """To be called where a query has failed: raises `GivenUp` or `EngineLost` where that is why."""
        if not self.engines.spark.is_alive():
            raise EngineLost from error
        if self.cancelled.is_set():
            raise Cancelled from error


@dataclass(frozen=True)
class Job(Generic[Result]):
    """A query under way, for some tasks."""

    tasks: Sequence[Task]
    description: str
    slot: QuerySlot
    future: Future[Result]
    started_at: float = field(default_factory=time.monotonic)

    def cancel(self) -> None:
        """End it as soon as may be."""
        if not self.slot.cancelled.is_set():
            self.slot.cancelled.set()
            self.slot.engines.cancel()


class Workers:
    """`stuck`: seconds that a query may take. `places`: queries that may run at once, at most as many as engines.
    `here`, `stream`: see `Engines`."""

    def __init__(
        self, engines: Sequence[EngineRouter], ledger: Ledger, query_timeout: float
    ) -> None:
        self.concurrency = len(engines)
        self.has_local_engine = all(one.has_local_engine for one in engines)
        self.shared_scan_stream = engines[0].shared_scan_stream
        self._idle_engines = list(engines)
        self._engine_count = len(engines)
        self._ledger = ledger
        self._query_timeout = query_timeout
        self._pool = ThreadPoolExecutor(len(engines), "history")

    @property
    def free_slots(self) -> int:
        """How many queries may begin now."""
        return max(self.concurrency - (self._engine_count - len(self._idle_engines)), 0)

    @property
    def background_slots(self) -> int:
        """How many of these the background, and what judges conditions, may take: first answers need not wait for
        them, so the last place is not theirs."""
        return max(self.free_slots - 1, 0) if self.concurrency > 1 else self.free_slots

    def start(
        self, tasks: Sequence[Task], description: str, run_query: Callable[[QuerySlot], Result]
    ) -> Job[Result]:
        """Ask a free engine something."""
        if tasks:
            self._ledger.mark_query_started(tasks)
        asking = QuerySlot(self._idle_engines.pop())
        return Job(tasks, description, asking, self._pool.submit(run_query, asking))

    def pop_finished(self, jobs: Iterable[Job[Result]]) -> Iterator[Job[Result]]:
        """Of some jobs those that have ended; their engines are free again."""
        for job in [job for job in jobs if job.future.done()]:
            self._idle_engines.append(job.slot.engines)
            yield job

    def enforce_timeouts(self, jobs: Iterable[Job[Result]]) -> None:
        """End queries that take too long; and the process, where one is stuck that Spark cannot end."""
        for job in jobs:
            over = time.monotonic() - job.started_at - self._query_timeout
            if over > 0 and not job.slot.cancelled.is_set():
                self.count_failed_attempt(job.tasks, f"{job.description} too long")
                job.cancel()
            elif over > _CANCEL_GRACE and job.slot.cancelled.is_set():
                _LOG.error("history query", action=f"{job.description} stuck")
                os._exit(_EXIT_SOFTWARE_ERROR)

    def count_failed_attempt(self, tasks: Iterable[Task], action: str) -> None:
        """The process falls over this query: its tasks are tried again alone, and given up after some times."""
        charged = list(tasks)
        self._ledger.count_failed_attempt(charged)
        for task in charged:
            task.tries += 1
        _LOG.error("history query", action=action, recalls=[str(task.id) for task in charged])

    def close(self) -> None:
        """Begin nothing more; what is under way counts for nothing, and is read again by the next process."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def wait_for_any(jobs: Iterable[Job[Result]], seconds: float) -> bool:
    """Until a query has ended, or for some time; False: there is none."""
    under_way = [job.future for job in jobs]
    if under_way:
        wait(under_way, timeout=seconds, return_when=FIRST_COMPLETED)
    return bool(under_way)


def summarise_error(error: Exception) -> str:
    """What is wrong, in a line: Spark names it in brackets, somewhere in many lines."""
    text = (
        f"{type(error).__name__}: {error}" if isinstance(error, LookupError) else str(error).strip()
    )
    named = re.search(r"\[[A-Z][A-Z_.0-9]+\] [^\n]+", text)
    return (named[0] if named else (text.splitlines() or [type(error).__name__])[0])[:1000]
