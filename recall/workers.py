"""The engines of this process, each for one query at a time, and the threads that ask them."""

import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import structlog

from recall.engines.chosen import Engines
from recall.ledger import Ledger, Task

Found = TypeVar("Found")

_LOG = structlog.get_logger()
# A fault of the software, as sysexits.h names it.
_FELL = 70


class EngineLost(Exception):
    """The JVM is gone, and this process with it: the next one goes on."""


@dataclass(frozen=True)
class Job(Generic[Found]):
    """A query under way, for some tasks."""

    tasks: Sequence[Task]
    what: str
    engines: Engines
    future: Future[Found]
    began: float = field(default_factory=time.monotonic)


class Workers:
    """`stuck`: seconds that a query may take."""

    def __init__(self, engines: Sequence[Engines], ledger: Ledger, stuck: float) -> None:
        self.free = list(engines)
        # The background, and what judges conditions, never take the last place: first answers need not wait for them.
        self.kept_free = 1 if len(engines) > 1 else 0
        self._ledger = ledger
        self._stuck = stuck
        self._pool = ThreadPoolExecutor(len(engines), "history")

    def start(self, tasks: Sequence[Task], what: str, ask: Callable[[Engines], Found]) -> Job[Found]:
        """Ask a free engine something."""
        engines = self.free.pop()
        return Job(tasks, what, engines, self._pool.submit(ask, engines))

    def ended(self, jobs: Iterable[Job[Found]]) -> Iterator[Job[Found]]:
        """Of some jobs those that have ended; their engines are free again."""
        for job in [job for job in jobs if job.future.done()]:
            self.free.append(job.engines)
            yield job

    def watch(self, jobs: Iterable[Job[Found]]) -> None:
        """End the process where a query is stuck: nothing else can end one that is stuck in Spark."""
        for job in jobs:
            if time.monotonic() - job.began > self._stuck:
                self.charge(job.tasks, f"{job.what} stuck")
                os._exit(_FELL)

    def charge(self, tasks: Iterable[Task], what: str) -> None:
        """The process falls over this query: its tasks are tried again alone, and given up after some times."""
        charged = list(tasks)
        self._ledger.charge(charged)
        _LOG.error("history query", action=what, recalls=[str(task.id) for task in charged])

    def close(self) -> None:
        """Begin nothing more; what is under way counts for nothing, and is read again by the next process."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def rest(jobs: Iterable[Job[Found]], seconds: float) -> bool:
    """Until a query has ended, or for some time; False: there is none."""
    under_way = [job.future for job in jobs]
    if under_way:
        wait(under_way, timeout=seconds, return_when=FIRST_COMPLETED)
    return bool(under_way)


def words(error: Exception) -> str:
    """What is wrong, in a line: Spark names it in brackets, somewhere in many lines."""
    text = str(error).strip()
    named = re.search(r"\[[A-Z][A-Z_.0-9]+\] [^\n]+", text)
    return (named[0] if named else (text.splitlines() or [type(error).__name__])[0])[:1000]
