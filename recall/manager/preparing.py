"""History prepared for comparisons: as the turn of a task whose next piece needs it, else while no recall has a turn.

What is prepared, and how, is known to whoever gives the `Background`; here is only when.
"""

from collections.abc import Callable, Collection
from typing import Any, Protocol
from uuid import UUID

import structlog
from pyspark.sql import SparkSession

from recall.ledger import Task
from recall.manager.desk import Desk, Work
from recall.manager.workers import Asking, EngineLost, Job, Workers, words

_LOG = structlog.get_logger()


class Background(Protocol):
    """Work on history beside recalls. What it looks for is asked in one thread, and done in another, one at a time."""

    def next(self) -> Any | None:
        """What should be done while nobody asks anything; None: nothing."""

    def wanted(self, rule: str, version: str, chunk: int) -> Any | None:
        """What must be done before an event of a rule can be compared with those of a chunk; None: nothing."""

    def missing(self, rule: str, version: str) -> Collection[int]:
        """The chunks in which events of a rule may lie that are not found yet."""

    def lost(self, rule: str, version: str) -> Collection[int]:
        """Those of them in which nobody will look for events of the rule any more: it has failed too often."""

    def make(self, work: Any, session: Callable[[], SparkSession]) -> None:
        """Do it; `session`: Spark, started where it is needed. What cannot be done is not raised but kept, and not
        wanted again."""

    def end(self) -> None:
        """Nothing more is done; what is under way fails, which says nothing of it."""


class Preparing:
    """`background` None: there is nothing to prepare."""

    def __init__(self, desk: Desk, workers: Workers, background: Background | None) -> None:
        self.jobs: list[Job[None]] = []
        self.waiting: set[UUID] = set()
        """Tasks that can have no turn before there is room to prepare."""
        self._desk = desk
        self._workers = workers
        self._background = background
        self._turn: Work | None = None

    def missing(self, task: Task) -> Collection[int]:
        """The chunks that are not prepared for a task's comparison."""
        return () if self._background is None else self._background.missing(task.rule, task.version)

    def lost(self, task: Task) -> Collection[int]:
        """Those that will never be."""
        return () if self._background is None else self._background.lost(task.rule, task.version)

    def first(self, work: Work) -> bool:
        """Whether something must be prepared before the next piece of a comparison: it is, or waits, as its turn.

        A later piece of the same turn that is not prepared is left for another turn.
        """
        task = work.task
        if self._background is None or not task.pieces:
            return False
        for place in range(task.next, work.upto):
            needed = self._background.wanted(task.rule, task.version, task.pieces[place][0])
            if needed is not None:
                work.upto = place
                return place == task.next and self._begin(work, needed)
        return False

    def _begin(self, work: Work, needed: Any) -> bool:
        workers = self._workers
        if self.jobs or not (workers.spare if work.background else workers.free):
            self.waiting.add(work.task.id)
        else:
            self._desk.stride.served({work.task.id: 1})
            work.busy, self._turn = True, work
            self._start(needed)
        return True

    def idle(self) -> None:
        """Prepare what nobody has asked for, unless somebody may be waiting for something."""
        if self._background is None or self.jobs or not self._workers.spare:
            return
        if all(work.background for work in self._desk.works.values()):
            needed = self._background.next()
            if needed is not None:
                self._start(needed)

    def _start(self, needed: Any) -> None:
        background = self._background
        assert background is not None

        def make(asking: Asking) -> None:
            background.make(needed, asking.engines.spark.session)

        # Whoever falls over it, no task is charged: what is prepared has its own count.
        self.jobs.append(self._workers.start([], "preparing history", make))

    def finish(self) -> None:
        """Prepare nothing more."""
        if self._background is not None:
            self._background.end()

    def collect(self) -> None:
        """What was prepared is there: its task may go on, and others may have theirs prepared."""
        self.waiting.clear()
        for job in list(self._workers.ended(self.jobs)):
            self.jobs.remove(job)
            if self._turn is not None:
                self._desk.put_back([self._turn])
                self._turn = None
            try:
                job.future.result()
            except Exception as error:
                if not job.asking.engines.spark.alive():
                    raise EngineLost from error
                _LOG.error("history not prepared", action="preparing_failed", error=words(error))
