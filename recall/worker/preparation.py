"""When to prepare history for comparisons.

History is prepared as part of the turn of a task whose next piece needs it, or else while no recall
is waiting. What is prepared, and how, is up to the `BackgroundWork`.
"""

from collections.abc import Callable, Collection
from typing import Any, Protocol
from uuid import UUID

import structlog
from pyspark.sql import SparkSession

from recall.errors import EngineLost, ExecutorsAway
from recall.ledger import Task, TaskSpec
from recall.worker.active_tasks import ActiveTask, ActiveTasks
from recall.worker.query_slots import Job, QuerySlot, Workers, summarise_error
from recall.worker.turn_recorder import TurnRecorder

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
        self,
        active_tasks: ActiveTasks,
        recorder: TurnRecorder,
        workers: Workers,
        background: BackgroundWork | None,
    ) -> None:
        self.jobs: list[Job[None]] = []
        self.waiting_task_ids: set[UUID] = set()
        """Tasks that cannot have a turn until there is a slot to prepare their next piece."""
        self._active_tasks = active_tasks
        self._recorder = recorder
        self._workers = workers
        self._background = background
        self._current: TaskSpec | None = None
        self._had_no_executors = False

    def incomplete_chunks(self, task: Task) -> Collection[int]:
        """The chunks that are not prepared for a task's comparison."""
        if self._background is None:
            return ()
        return self._background.incomplete_chunks(task.spec.rule, task.spec.version)

    def abandoned_chunks(self, task: Task) -> Collection[int]:
        """The chunks that will never be prepared for a task's comparison."""
        if self._background is None:
            return ()
        return self._background.abandoned_chunks(task.spec.rule, task.spec.version)

    def find_required(self, active_task: ActiveTask, end: int) -> tuple[int, Any] | None:
        """The first piece of a comparison, before the cursor `end`, that must be prepared first.

        Returns the number of the piece, and the work that prepares it.
        """
        spec = active_task.spec
        if self._background is None:
            return None
        for number in range(active_task.progress.next, end):
            chunk = active_task.pieces[number].chunk
            required = self._background.required_task(spec.rule, spec.version, chunk)
            if required is not None:
                return number, required
        return None

    def prepare(self, active_task: ActiveTask, required: Any) -> None:
        """Prepare the next piece of a comparison as its turn, or let it wait for a slot."""
        slots = self._workers.free_slots
        if active_task.is_background:
            slots = self._workers.background_slots
        if self.jobs or not slots or self._awaits_executors():
            self.waiting_task_ids.add(active_task.spec.id)
            return
        self._active_tasks.stride.charge_pieces({active_task.spec.id: 1})
        self._active_tasks.set_busy(active_task.spec, True)
        self._current = active_task.spec
        self._start(required)

    def prepare_when_idle(self) -> None:
        """Start background work unless an interactive task is active."""
        if self._background is None or self.jobs or not self._workers.background_slots:
            return
        if self._awaits_executors():
            return
        if not any(
            not active_task.is_background and not active_task.is_following
            for active_task in self._active_tasks.tasks.values()
        ):
            work = self._background.next_task()
            if work is not None:
                self._start(work)

    def _awaits_executors(self) -> bool:
        """Whether no executor can do the work of a job that has ended for that reason."""
        self._had_no_executors = self._had_no_executors and self._workers.are_executors_away()
        return self._had_no_executors

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
                self._recorder.requeue([self._current])
                self._current = None
            try:
                job.future.result()
            except ExecutorsAway:
                self._had_no_executors = True
            except Exception as error:
                if not job.slot.engines.spark.is_alive():
                    raise EngineLost from error
                _LOG.error(
                    "history preparation failed",
                    action="history_preparation_failed",
                    error=summarise_error(error),
                )
