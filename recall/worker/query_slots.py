"""The engines of this process, each for one query at a time, and the threads that run queries."""

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Generic, TypeVar
from uuid import UUID

import structlog

from recall.engines import find_pattern_limit
from recall.engines.routing import EngineRouter
from recall.errors import Cancelled, EngineLost, ExecutorsAway
from recall.worker.work_clock import WorkClock

Result = TypeVar("Result")

_LOG = structlog.get_logger()
# How long a cancelled query may take to end.
_CANCEL_GRACE = 10.0  # seconds
_MIN_DELAY = 1.0  # seconds of delay that are stored at once
_EXIT_SOFTWARE_ERROR = 70  # EX_SOFTWARE of sysexits.h
# Spark names its error class in brackets, somewhere in a long message.
_SPARK_ERROR = re.compile(r"\[[A-Z][A-Z_.0-9]+\] [^\n]+")
NO_EXECUTORS = "no executors: answers what needs none"
_MAX_ERROR_LENGTH = 1000  # characters


@dataclass(frozen=True)
class QuerySlot:
    """What a query runs on: an engine, and the flag that it was cancelled."""

    engines: EngineRouter
    cancelled: threading.Event = field(default_factory=threading.Event)

    def raise_if_interrupted(self, error: Exception) -> None:
        """Raise `EngineLost` or `Cancelled` if that is why a query failed with `error`."""
        if not self.engines.spark.is_alive():
            raise EngineLost from error
        if isinstance(error, ExecutorsAway):
            raise error
        if self.engines.are_executors_away():
            raise ExecutorsAway from error
        if self.cancelled.is_set():
            raise Cancelled from error


@dataclass(eq=False)
class Job(Generic[Result]):
    """A running query for some tasks. Belongs to the thread of the main loop.

    `began_at`: by the monotonic clock; `work_began_at`: by `clock`; `start_seconds_before`: how
    long Spark had taken to start; `delayed`: see `Workers.pop_delays`. All in seconds.
    """

    task_ids: Sequence[UUID]
    description: str
    slot: QuerySlot
    future: Future[Result]
    clock: WorkClock
    work_began_at: float
    start_seconds_before: float
    began_at: float = field(default_factory=time.monotonic)
    delayed: float = 0.0
    has_timed_out: bool = False

    @property
    def worked_seconds(self) -> float:
        """How long the query could work: Spark had started, and the machine was not too busy."""
        start_seconds = self.slot.engines.spark.start_seconds - self.start_seconds_before
        worked = self.clock.now(is_exact=False) - self.work_began_at
        return max(worked - start_seconds, 0.0)

    def cancel(self) -> None:
        """Cancel the query; it ends soon after.

        Called until it has ended: an interruption just before a statement begins has no effect.
        """
        self.slot.cancelled.set()
        self.slot.engines.cancel()


class Workers:
    """The engines and the thread pool of a process.

    `query_timeout`: seconds that a query may work: the start of Spark does not count, nor does the
    time in which a busy machine does not let this process work. `concurrency`: queries that may run
    at once, at most the number of engines; may be changed at any time. `on_query_end` is called in
    any thread.
    """

    def __init__(
        self,
        engines: Sequence[EngineRouter],
        query_timeout: float,
        on_query_end: Callable[[], None] = lambda: None,
    ) -> None:
        self.concurrency = len(engines)
        # All engines of a process have the same settings.
        self.shared_scan_stream = engines[0].shared_scan_stream
        self.are_executors_away = engines[0].are_executors_away
        self._idle_engines = list(engines)
        self._engine_count = len(engines)
        self._query_timeout = query_timeout
        self._on_query_end = on_query_end
        self._clock = WorkClock()
        self._pool = ThreadPoolExecutor(len(engines), "history")

    @property
    def free_slots(self) -> int:
        """How many queries may start now."""
        busy = self._engine_count - len(self._idle_engines)
        return max(self.concurrency - busy, 0)

    @property
    def activity(self) -> str:
        """How many queries run, of those that may run at once under the load of the machine."""
        busy = self._engine_count - len(self._idle_engines)
        activity = f"running, {busy} of {self.concurrency} history queries"
        return f"{activity}, {NO_EXECUTORS}" if self.are_executors_away() else activity

    @property
    def background_slots(self) -> int:
        """How many of the free slots background tasks and conditions may use.

        The last slot is reserved for first answers.
        """
        if self.concurrency > 1:
            return max(self.free_slots - 1, 0)
        return self.free_slots

    def start(
        self, task_ids: Sequence[UUID], description: str, run_query: Callable[[QuerySlot], Result]
    ) -> Job[Result]:
        """Run a query on an idle engine, in a thread."""
        slot = QuerySlot(self._idle_engines.pop())
        start_seconds_before = slot.engines.spark.start_seconds
        work_began_at = self._clock.now()
        future = self._pool.submit(run_query, slot)
        future.add_done_callback(lambda _: self._on_query_end())
        return Job(
            task_ids,
            description,
            slot,
            future,
            clock=self._clock,
            work_began_at=work_began_at,
            start_seconds_before=start_seconds_before,
        )

    def pop_finished(self, jobs: Iterable[Job[Result]]) -> Iterator[Job[Result]]:
        """The finished ones of some jobs; frees their engines."""
        finished = [job for job in jobs if job.future.done()]
        for job in finished:
            self._idle_engines.append(job.slot.engines)
            yield job

    def enforce_timeouts(
        self, jobs: Iterable[Job[Result]], on_timeout: Callable[[Job[Result]], None]
    ) -> None:
        """Cancel queries that take too long, after `on_timeout`.

        Exits the process if a cancelled query does not end.
        """
        for job in jobs:
            overtime = job.worked_seconds - self._query_timeout
            if overtime > 0 and not job.slot.cancelled.is_set():
                job.has_timed_out = True
                on_timeout(job)
                job.cancel()
            elif overtime > _CANCEL_GRACE and job.slot.cancelled.is_set():
                _LOG.error(
                    "query does not end after cancellation, process exits",
                    action="query_stuck",
                    query=job.description,
                )
                os._exit(_EXIT_SOFTWARE_ERROR)

    def interrupt_spark(self, jobs: Iterable[Job[Result]]) -> None:
        """Interrupt what no executor runs: it raises `ExecutorsAway`."""
        if self.are_executors_away():
            for job in jobs:
                job.slot.engines.spark.cancel()

    def pop_delays(self, jobs: Iterable[Job[Result]]) -> Iterator[tuple[Job[Result], float]]:
        """The jobs that could not work for a second or more since the last call, and how long."""
        for job in jobs:
            delayed = time.monotonic() - job.began_at - job.worked_seconds
            if delayed - job.delayed >= _MIN_DELAY:
                yield job, delayed - job.delayed
                job.delayed = delayed

    def close(self) -> None:
        """Start no more queries; the results of running ones are discarded."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def summarise_error(error: Exception) -> str:
    """An error in one line of at most 1,000 characters."""
    text = str(error).strip()
    if isinstance(error, LookupError):
        text = f"{type(error).__name__}: {error}"
    pattern_limit = find_pattern_limit(text)
    if pattern_limit is not None:
        return pattern_limit[:_MAX_ERROR_LENGTH]
    spark_error = _SPARK_ERROR.search(text)
    if spark_error is not None:
        return spark_error[0][:_MAX_ERROR_LENGTH]
    first_line = text.splitlines()[0] if text else type(error).__name__
    return first_line[:_MAX_ERROR_LENGTH]
