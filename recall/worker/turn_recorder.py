"""Records turns: the results of turns are stored only here, in the thread of the main loop.

Commands, claims and the live process change tasks too; `TaskClaimer.sync_with_ledger` follows them.
"""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import structlog

import sql
from recall.ledger import Ledger, Task, TaskSpec, TurnResult, retry_on_deadlock
from recall.scheduling import TurnStatistics
from recall.worker.active_tasks import MAX_ATTEMPTS, ActiveTasks, TurnTask
from recall.worker.metrics import RecallMetrics
from recall.worker.query_slots import summarise_error
from sql.reports import FlowGateway, FlowRow

_LOG = structlog.get_logger()

# How long a task waits whose queries for a piece exceeded the time limit too often, before one more.
_PUT_OFF_DELAYS = (timedelta(seconds=30), timedelta(minutes=2), timedelta(minutes=10))


class TurnRecorder:
    """Writes the beginnings and results of turns to the ledger, and updates the active tasks."""

    def __init__(
        self,
        connection: sql.Connection,
        ledger: Ledger,
        active_tasks: ActiveTasks,
        metrics: RecallMetrics,
        on_answers: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_answers` is called after answers were stored, or recalls have failed."""
        self._connection = connection
        self._ledger = ledger
        self._active_tasks = active_tasks
        self._metrics = metrics
        self._flows = FlowGateway(connection)
        # What turns have added to the figures of their recalls since these were stored.
        self._new_flows: list[FlowRow] = []
        # The tasks whose pieces are not stored yet, by ID.
        self._planned: dict[UUID, Task] = {}
        self._on_answers = on_answers

    def plan_pieces(self, task: Task) -> Task:
        """Let `begin_query` or `pin_planned` store which pieces a task reads.

        Returns the task at its start.
        """
        self._planned[task.id] = task
        return task.at_start()

    def pin_planned(self) -> None:
        """Store the pieces of tasks that have no query yet."""
        for task_id in list(self._planned):
            self._ledger.pin_pieces(self._planned.pop(task_id))

    def pin_pieces(self, task: Task) -> Task:
        """Store which pieces a task reads, before it reads any; returns the task at its start."""
        pinned = self._ledger.pin_pieces(task)
        active_task = self._active_tasks.find(task.spec)
        if active_task is not None:
            self._active_tasks.update(active_task, pinned.progress)
        return pinned

    def begin_query(self, tasks: Sequence[TaskSpec]) -> None:
        """Record that a query for these tasks has started: they are busy until it is recorded."""
        pinned: list[UUID] = []
        for task in tasks:
            self._active_tasks.set_busy(task, True)
            planned = self._planned.pop(task.id, None)
            if planned is None:
                pinned.append(task.id)
            else:
                self._ledger.pin_pieces(planned, started=True)
        # If the process is killed before the query ends, that counts as a failed attempt.
        if pinned:
            self._ledger.mark_query_started(pinned)

    def record(self, turns: Sequence[TurnTask], results: Sequence[TurnResult]) -> list[Task]:
        """Store the results of one query in one transaction; returns the tasks that have ended."""
        flows: list[FlowRow] = []
        for turn, result in zip(turns, results, strict=True):
            is_active = self._active_tasks.find(turn.spec) is not None
            if is_active and "/" in turn.spec.rule:  # ad-hoc queries have no rule
                flows.append(_count_flow(turn.spec, result.statistics))
        ended = retry_on_deadlock(lambda: self._record_in_transaction(turns, results))
        self._new_flows += flows
        self._on_answers()
        return ended

    def _record_in_transaction(
        self, turns: Sequence[TurnTask], results: Sequence[TurnResult]
    ) -> list[Task]:
        if len(turns) == 1:  # its only statements that belong together have a transaction
            return self._record_results(turns, results)
        with self._connection.transaction():
            self._ledger.lock_tasks([turn.spec.id for turn in turns])
            return self._record_results(turns, results)

    def _record_results(
        self, turns: Sequence[TurnTask], results: Sequence[TurnResult]
    ) -> list[Task]:
        ended = []
        # Revision streams are locked in the order of (rule, name).
        pairs = sorted(zip(turns, results, strict=True), key=_stream_order)
        for turn, result in pairs:
            self._active_tasks.set_busy(turn.spec, False)
            task = self._record_result(turn.spec, result)
            if task is not None:
                ended.append(task)
        return ended

    def store_flows(self) -> None:
        """Store what recalls have processed since the last call."""
        if self._new_flows:
            self._flows.add(self._new_flows)
            self._new_flows = []

    def _record_result(self, spec: TaskSpec, result: TurnResult) -> Task | None:
        """Store the result of a turn; returns the task if it has ended with it."""
        active_task = self._active_tasks.find(spec)
        if active_task is None:
            return None
        task = active_task.task
        try:
            advanced = self._ledger.advance(task, result)
        except (TypeError, ValueError, sql.DataError, sql.ProgramLimitExceeded) as error:
            self.fail(task, f"cannot store the answer: {summarise_error(error)}")
            return None
        if advanced is None:
            self._active_tasks.drop(spec.id)
            return None
        state, progress = advanced
        previous_seconds = task.progress.statistics.seconds
        task = replace(task, progress=progress)
        self._metrics.record_query(task, progress.statistics.seconds - previous_seconds)
        if result.revision is not None:
            self._metrics.record_revision(task, progress.revision)
        if state not in ("running", "suspended"):
            self._metrics.record_end(task)
        if state != "running":
            self._active_tasks.drop(spec.id)
            return None if state == "suspended" else task
        if self._active_tasks.has_backlog and progress.revision > 0 and progress.level == 0:
            # First answers of waiting tasks come before further revisions of this one.
            self._ledger.defer([spec.id])
            self._active_tasks.drop(spec.id)
            return None
        if result.revision is not None:
            active_task = replace(active_task, revised_at=time.monotonic())
        active_task = replace(active_task, has_improved=result.has_improved)
        self._active_tasks.update(active_task, progress)
        return None

    def requeue(self, tasks: Iterable[TaskSpec]) -> None:
        """Let tasks wait for another turn; those with too many failed attempts end."""
        for spec in tasks:
            self._active_tasks.set_busy(spec, False)
            active_task = self._active_tasks.find(spec)
            if active_task is not None and active_task.progress.tries >= MAX_ATTEMPTS:
                self.end_attempts(active_task.task)

    def fail(self, task: Task, reason: str, exceeded: bool = False) -> None:
        """End a task as failed; `exceeded`: because it needs too much memory or time."""
        _LOG.error(
            "recall failed",
            action="recall_failed",
            rule=task.spec.rule,
            recall=task.spec.recall,
            error=reason,
        )
        self._ledger.advance(task, TurnResult.failure(task.progress, reason, exceeded=exceeded))
        self._active_tasks.drop(task.id)
        self._on_answers()

    def end_attempts(self, task: Task) -> None:
        """Put off a task whose queries for a piece failed too often by time; else end it as failed.

        What exceeds a time limit now, as on a slow machine, may not exceed it later.
        """
        progress = task.progress
        by_time = progress.timeouts >= progress.tries
        if by_time and progress.put_offs < len(_PUT_OFF_DELAYS):
            delay = _PUT_OFF_DELAYS[progress.put_offs]
            self._ledger.put_off(task, delay)
            self._active_tasks.drop(task.id)
            _LOG.warning(
                "recall is put off",
                action="recall_put_off",
                rule=task.spec.rule,
                recall=task.spec.recall,
                error=progress.error,
                seconds=delay.total_seconds(),
            )
            return
        attempts = progress.tries + progress.put_offs
        cause = "time" if by_time else "memory or time"
        reason = f"failed {attempts} times at one piece: needs too much {cause}"
        if progress.error is not None:
            reason += f"; last: {progress.error}"
        self.fail(task, reason, exceeded=True)

    def add_delay(self, task_ids: Collection[UUID], seconds: float) -> None:
        """Store that a query of some tasks could not work for some seconds."""
        if task_ids:
            self._ledger.add_delay(task_ids, seconds)

    def count_timeout(
        self, task_ids: Collection[UUID], description: str, query_timeout: float
    ) -> None:
        """Count and log an attempt that was cancelled. `query_timeout`: in seconds."""
        error = f"{description} cancelled after {query_timeout:g} s of work (recall.query_timeout)"
        self._count_failed_attempt(task_ids, error, timed_out=True)
        _log_failed_query("query_timed_out", task_ids, description)

    def count_lost_engine(self, task_ids: Collection[UUID], description: str) -> None:
        """Count and log an attempt during which the JVM exited."""
        self._count_failed_attempt(task_ids, f"Spark ended during a {description}", timed_out=False)
        _log_failed_query("engine_lost", task_ids, description)

    def _count_failed_attempt(
        self, task_ids: Collection[UUID], error: str, timed_out: bool
    ) -> None:
        """Count a failed attempt; the tasks are retried alone, a limited number of times."""
        self._ledger.count_failed_attempt(task_ids, error, timed_out)
        for task_id in task_ids:
            active_task = self._active_tasks.tasks.get(task_id)
            if active_task is None:
                continue
            progress = active_task.progress
            counted = replace(
                progress,
                tries=progress.tries + 1,
                timeouts=progress.timeouts + timed_out,
                error=error,
            )
            self._active_tasks.update(active_task, counted)


def _log_failed_query(action: str, task_ids: Collection[UUID], description: str) -> None:
    ids = list(map(str, task_ids))
    _LOG.error("query failed", action=action, query=description, recalls=ids)


def _count_flow(spec: TaskSpec, turn: TurnStatistics) -> FlowRow:
    """What a turn adds to the figures of its recall."""
    name = f"{spec.rule}/{spec.recall}"
    return FlowRow("recall", name, turn.rows, turn.results, turn.seconds)


def _stream_order(pair: tuple[TurnTask, TurnResult]) -> tuple[str, str]:
    spec = pair[0].spec
    return spec.rule, spec.recall
