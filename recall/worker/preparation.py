"""When to prepare history for comparisons.

History is prepared as part of the turn of a task whose next piece needs it, or else while no recall
is waiting. What is prepared, and how, is up to the `BackgroundWork`.
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
    """Work on history apart from recalls.

    Planning methods are called in one thread; `execute` in another, one call at a time.
    """

    def next_task(self) -> Any | None:
        """Work to do while the process is idle; None if there is none."""

    def required_task(self, rule: str, version: str, chunk: int) -> Any | None:
        """Work required before events of a rule can be compared with those of a chunk; or None."""

    def incomplete_chunks(self, rule: str, version: str) -> Collection[int]:
        """The chunks whose events of a rule have not all been found yet."""

    def abandoned_chunks(self, rule: str, version: str) -> Collection[int]:
        """The incomplete chunks that will never be searched: it has failed too often."""

    def execute(self, task: Any, session: Callable[[], SparkSession]) -> None:
        """Do the work; `session` starts Spark if needed.

        Failures are recorded, not raised; work that failed too often is not returned again.
        """

    def shut_down(self) -> None:
        """Start no more work. Running work fails; that does not count as a failed attempt."""


class HistoryPreparation:
    """Schedules the background work. `background` None: there is nothing to prepare."""

    def __init__(
        self, active_tasks: ActiveTasks, workers: Workers, background: BackgroundWork | None
    ) -> None:
        self.jobs: list[Job[None]] = []
        self.waiting_task_ids: set[UUID] = set()
        """Tasks that cannot have a turn until there is a slot to prepare their next piece."""
        self._active_tasks = active_tasks
        self._workers = workers
        self._background = background
        self._current: ActiveTask | None = None

    def incomplete_chunks(self, task: Task) -> Collection[int]:
        """The chunks that are not prepared for a task's comparison."""
        if self._background is None:
            return ()
        return self._background.incomplete_chunks(task.rule, task.version)

    def abandoned_chunks(self, task: Task) -> Collection[int]:
        """The chunks that will never be prepared for a task's comparison."""
        if self._background is None:
            return ()
        return self._background.abandoned_chunks(task.rule, task.version)

    def prepare_next_piece(self, active_task: ActiveTask) -> bool:
        """Whether the next piece of a comparison must be prepared first.

        If so, that starts, or the task waits for a slot, as its turn. If a later piece of the turn
        is not prepared, the turn ends before it.
        """
        task = active_task.task
        if self._background is None or not task.pieces:
            return False
        for number in range(task.next, active_task.turn_end):
            chunk = task.pieces[number][0]
            required = self._background.required_task(task.rule, task.version, chunk)
            if required is not None:
                active_task.turn_end = number
                if number > task.next:
                    return False
                self._begin_turn(active_task, required)
                return True
        return False

    def _begin_turn(self, active_task: ActiveTask, required: Any) -> None:
        slots = self._workers.free_slots
        if active_task.is_background:
            slots = self._workers.background_slots
        if self.jobs or not slots:
            self.waiting_task_ids.add(active_task.task.id)
            return
        self._active_tasks.stride.charge_pieces({active_task.task.id: 1})
        active_task.is_busy = True
        self._current = active_task
        self._start(required)

    def prepare_when_idle(self) -> None:
        """Start background work unless an interactive task is active."""
        if self._background is None or self.jobs or not self._workers.background_slots:
            return
        if all(active_task.is_background for active_task in self._active_tasks.tasks.values()):
            work = self._background.next_task()
            if work is not None:
                self._start(work)

    def _start(self, work: Any) -> None:
        background = self._background
        assert background is not None

        def execute(slot: QuerySlot) -> None:
            background.execute(work, slot.engines.spark.session)

        # Without tasks: failed attempts are counted by the background work itself.
        self.jobs.append(self._workers.start([], "history preparation", execute))

    def shut_down(self) -> None:
        """Start no more background work."""
        if self._background is not None:
            self._background.shut_down()

    def collect_finished(self) -> None:
        """Requeue the tasks whose history is prepared, and those that waited for a slot."""
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
                    "history preparation failed",
                    action="history_preparation_failed",
                    error=summarise_error(error),
                )
