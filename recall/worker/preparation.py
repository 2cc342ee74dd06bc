"""History prepared for comparisons: as the turn of a task whose next piece needs it, else while no recall has a turn.

What is prepared, and how, is known to whoever gives the `Background`; here is only when.
"""

from collections.abc import Callable, Collection
from typing import Any, Protocol
from uuid import UUID

import structlog
from pyspark.sql import SparkSession

from recall.errors import EngineLost
from recall.ledger import Task
from recall.worker.active_tasks import ActiveTask, ActiveTasks
from recall.worker.query_slots import Job, QuerySlot, Workers, summarise_error

_LOG = structlog.get_logger()


class BackgroundWork(Protocol):
    """Work on history beside recalls. What it looks for is asked in one thread, and done in another, one at a time."""

    def next_task(self) -> Any | None:
        """What should be done while nobody asks anything; None: nothing."""

    def required_task(self, rule: str, version: str, chunk: int) -> Any | None:
        """What must be done before an event of a rule can be compared with those of a chunk; None: nothing."""

    def incomplete_chunks(self, rule: str, version: str) -> Collection[int]:
        """The chunks in which events of a rule may lie that are not found yet."""

    def abandoned_chunks(self, rule: str, version: str) -> Collection[int]:
        """Those of them in which nobody will look for events of the rule any more: it has failed too often."""

    def execute(self, task: Any, session: Callable[[], SparkSession]) -> None:
        """Do it; `session`: Spark, started where it is needed. What cannot be done is not raised but kept, and not
        wanted again."""

    def shut_down(self) -> None:
        """Nothing more is done; what is under way fails, which says nothing of it."""


class HistoryPreparation:
    """`background` None: there is nothing to prepare."""

    def __init__(
        self, active_tasks: ActiveTasks, workers: Workers, background: BackgroundWork | None
    ) -> None:
        self.jobs: list[Job[None]] = []
        self.waiting_task_ids: set[UUID] = set()
        """Tasks that can have no turn before there is room to prepare."""
        self._active_tasks = active_tasks
        self._workers = workers
        self._background = background
        self._current: ActiveTask | None = None

    def incomplete_chunks(self, task: Task) -> Collection[int]:
        """The chunks that are not prepared for a task's comparison."""
        return (
            ()
            if self._background is None
            else self._background.incomplete_chunks(task.rule, task.version)
        )

    def abandoned_chunks(self, task: Task) -> Collection[int]:
        """Those that will never be."""
        return (
            ()
            if self._background is None
            else self._background.abandoned_chunks(task.rule, task.version)
        )

    def prepare_next_piece(self, active_task: ActiveTask) -> bool:
        """Whether something must be prepared before the next piece of a comparison: it is, or waits, as its turn.

        A later piece of the same turn that is not prepared is left for another turn.
        """
        task = active_task.task
        if self._background is None or not task.pieces:
            return False
        for place in range(task.next, active_task.turn_end):
            needed = self._background.required_task(task.rule, task.version, task.pieces[place][0])
            if needed is not None:
                active_task.turn_end = place
                return place == task.next and self._begin_turn(active_task, needed)
        return False

    def _begin_turn(self, work: ActiveTask, needed: Any) -> bool:
        workers = self._workers
        if self.jobs or not (
            workers.background_slots if work.is_background else workers.free_slots
        ):
            self.waiting_task_ids.add(work.task.id)
        else:
            self._active_tasks.stride.charge_pieces({work.task.id: 1})
            work.is_busy, self._current = True, work
            self._start(needed)
        return True

    def prepare_when_idle(self) -> None:
        """Prepare what nobody has asked for, unless somebody may be waiting for something."""
        if self._background is None or self.jobs or not self._workers.background_slots:
            return
        if all(work.is_background for work in self._active_tasks.tasks.values()):
            needed = self._background.next_task()
            if needed is not None:
                self._start(needed)

    def _start(self, needed: Any) -> None:
        background = self._background
        assert background is not None

        def make(asking: QuerySlot) -> None:
            background.execute(needed, asking.engines.spark.session)

        # Whoever falls over it, no task is charged: what is prepared has its own count.
        self.jobs.append(self._workers.start([], "preparing history", make))

    def shut_down(self) -> None:
        """Prepare nothing more."""
        if self._background is not None:
            self._background.shut_down()

    def collect_finished(self) -> None:
        """What was prepared is there: its task may go on, and others may have theirs prepared."""
        self.waiting_task_ids.clear()
        for job in list(self._workers.pop_finished(self.jobs)):
            self.jobs.remove(job)
            if self._current is not None:
                self._active_tasks.requeue([self._current])
                self._current = None
            try:
                job.future.result()
            except Exception as error:
                if not job.slot.engines.spark.is_alive():
                    raise EngineLost from error
                _LOG.error(
                    "history not prepared", action="preparing_failed", error=summarise_error(error)
                )
