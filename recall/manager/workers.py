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

from recall.engines.chosen import Engines
from recall.ledger import Ledger, Task

Found = TypeVar("Found")

_LOG = structlog.get_logger()
# Seconds for a query that was given up to end.
_GRACE = 10.0
# A fault of the software, as sysexits.h names it.
_FELL = 70


class EngineLost(Exception):
    """The JVM is gone, and this process with it: the next one goes on."""


class GivenUp(Exception):
    """A query was ended before its time."""


@dataclass(frozen=True)
class Asking:
    """What a query needs: an engine, and whether its answer is still wanted."""

    engines: Engines
    given_up: threading.Event = field(default_factory=threading.Event)

    def failed(self, fault: Exception) -> None:
        """To be called where a query has failed: raises `GivenUp` or `EngineLost` where that is why."""
        if not self.engines.spark.alive():
            raise EngineLost from fault
        if self.given_up.is_set():
            raise GivenUp from fault


@dataclass(frozen=True)
class Job(Generic[Found]):
    """A query under way, for some tasks."""

    tasks: Sequence[Task]
    what: str
    asking: Asking
    future: Future[Found]
    began: float = field(default_factory=time.monotonic)

    def give_up(self) -> None:
        """End it as soon as may be."""
        if not self.asking.given_up.is_set():
            self.asking.given_up.set()
            self.asking.engines.cancel()


class Workers:
    """`stuck`: seconds that a query may take. `places`: queries that may run at once, at most as many as engines.
    `here`, `stream`: see `Engines`."""

    def __init__(self, engines: Sequence[Engines], ledger: Ledger, stuck: float) -> None:
        self.places = len(engines)
        self.here = all(one.here for one in engines)
        self.stream = engines[0].stream
        self._idle = list(engines)
        self._engines = len(engines)
        self._ledger = ledger
        self._stuck = stuck
        self._pool = ThreadPoolExecutor(len(engines), "history")

    @property
    def free(self) -> int:
        """How many queries may begin now."""
        return max(self.places - (self._engines - len(self._idle)), 0)

    @property
    def spare(self) -> int:
        """How many of these the background, and what judges conditions, may take: first answers need not wait for
        them, so the last place is not theirs."""
        return max(self.free - 1, 0) if self.places > 1 else self.free

    def start(self, tasks: Sequence[Task], what: str, ask: Callable[[Asking], Found]) -> Job[Found]:
        """Ask a free engine something."""
        if tasks:
            self._ledger.asked(tasks)
        asking = Asking(self._idle.pop())
        return Job(tasks, what, asking, self._pool.submit(ask, asking))

    def ended(self, jobs: Iterable[Job[Found]]) -> Iterator[Job[Found]]:
        """Of some jobs those that have ended; their engines are free again."""
        for job in [job for job in jobs if job.future.done()]:
            self._idle.append(job.asking.engines)
            yield job

    def watch(self, jobs: Iterable[Job[Found]]) -> None:
        """End queries that take too long; and the process, where one is stuck that Spark cannot end."""
        for job in jobs:
            over = time.monotonic() - job.began - self._stuck
            if over > 0 and not job.asking.given_up.is_set():
                self.charge(job.tasks, f"{job.what} too long")
                job.give_up()
            elif over > _GRACE and job.asking.given_up.is_set():
                _LOG.error("history query", action=f"{job.what} stuck")
                os._exit(_FELL)

    def charge(self, tasks: Iterable[Task], what: str) -> None:
        """The process falls over this query: its tasks are tried again alone, and given up after some times."""
        charged = list(tasks)
        self._ledger.charge(charged)
        for task in charged:
            task.tries += 1
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
    text = f"{type(error).__name__}: {error}" if isinstance(error, LookupError) else str(error).strip()
    named = re.search(r"\[[A-Z][A-Z_.0-9]+\] [^\n]+", text)
    return (named[0] if named else (text.splitlines() or [type(error).__name__])[0])[:1000]
