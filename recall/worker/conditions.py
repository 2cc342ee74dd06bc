"""Conditions (`where`) of rules, evaluated once the recalls that they name are answered."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from archiver.periodic import Timer
from recall.engines import evaluate_condition
from recall.errors import Cancelled, EngineLost
from recall.ledger import Ledger, Task, TaskSpec
from recall.requests import SqlQuestion
from recall.worker.active_tasks import MAX_ATTEMPTS
from recall.worker.query_slots import Job, QuerySlot, Workers, summarise_error
from recall.worker.turn_recorder import TurnRecorder

_LOG = structlog.get_logger()

# Between two searches for ended tasks without a verdict.
_SEARCH_INTERVAL = 2.0  # seconds
# How long a condition waits before it may use the last free slot.
_LAST_SLOT_DELAY = 2.0  # seconds
_VERDICTS = {True: "kept", False: "held back", None: "no history"}
_OPEN_STATES = ("waiting", "running", "suspended")


@dataclass(frozen=True)
class _PendingCondition:
    """A condition that waits for an engine.

    `answers`: of the recalls that it names, each with the types of its columns. `waiting_since`: by
    the monotonic clock, in seconds.
    """

    task: Task
    question: SqlQuestion
    answers: Mapping[str, Any]
    waiting_since: float = field(default_factory=time.monotonic)

    def evaluate(self, slot: QuerySlot) -> bool | None:
        """The verdict; None: there is no history to decide by."""
        try:
            return slot.engines.spark.evaluate_condition(
                self.question, self.task.spec.event, self.answers
            )
        except Exception as error:
            slot.raise_if_interrupted(error)
            raise


class ConditionEvaluator:
    """Evaluates conditions: at once in this process where possible, else on an engine."""

    def __init__(self, ledger: Ledger, recorder: TurnRecorder, workers: Workers) -> None:
        self.jobs: list[Job[bool | None]] = []
        self._ledger = ledger
        self._recorder = recorder
        self._tasks_by_job: dict[Job[bool | None], TaskSpec] = {}
        self._workers = workers
        self._pending: list[_PendingCondition] = []
        self._search_timer = Timer(_SEARCH_INTERVAL)

    def add_ended(self, tasks: Iterable[Task]) -> None:
        """Evaluate the conditions of ended tasks whose other recalls are answered too."""
        for task in tasks:
            self._add_ended(task, all_started=False)

    def _add_ended(self, task: Task, all_started: bool) -> None:
        """`all_started`: recalls of the event that do not exist yet never will."""
        spec, question = task.spec, task.spec.question
        if not isinstance(question, SqlQuestion) or question.where is None:
            return
        if task.progress.tries >= MAX_ATTEMPTS:
            self._record_failure(spec, "needs too much memory or time")
            return
        latest_answers = self._ledger.latest_answers(spec.event.eid)
        if all_started and not question.judged.keys() <= latest_answers.keys():
            self._record_failure(spec, "a recall that it names was never started")
            return
        answers = {}
        for name, column_types in question.judged.items():
            recall = latest_answers.get(name)
            if recall is None or recall.state in _OPEN_STATES:
                return
            answers[name] = recall.answer or [], column_types

        def evaluate() -> None:
            verdict = evaluate_condition(question, spec.event, answers)
            self._recorder.record_verdict(spec, _VERDICTS[verdict])

        condition = _PendingCondition(task, question, answers)
        self._workers.engine_choice.run(evaluate, lambda: self._pending.append(condition))

    def evaluate_pending(self) -> None:
        """Start pending conditions on free slots and record the verdicts of finished ones."""
        now = time.monotonic()
        if self._search_timer.is_due(now) and not self._pending and not self.jobs:
            self._search_timer.restart(now)
            # Tasks that a command or another process has ended.
            for task in self._ledger.undecided_tasks():
                self._add_ended(task, all_started=True)
        while self._pending and self._workers.free_slots:
            condition = self._pending[0]
            # Only one condition may use the last slot: Spark may still be starting for it.
            waited = now - condition.waiting_since
            if not self._workers.background_slots and (self.jobs or waited < _LAST_SLOT_DELAY):
                break
            del self._pending[0]
            job = self._workers.start([condition.task.id], "condition", condition.evaluate)
            self.jobs.append(job)
            self._tasks_by_job[job] = condition.task.spec
        for job in self._workers.pop_finished(self.jobs):
            self.jobs.remove(job)
            self._record(job)

    def _record(self, job: Job[bool | None]) -> None:
        task = self._tasks_by_job.pop(job)
        try:
            verdict = job.future.result()
        except EngineLost:
            self._recorder.count_failed_attempt([task.id], job.description, "engine_lost")
            raise
        except Cancelled:
            return  # the next search finds it again, until it has failed too often
        except Exception as error:
            self._record_failure(task, summarise_error(error))
            return
        self._recorder.record_verdict(task, _VERDICTS[verdict])

    def _record_failure(self, task: TaskSpec, error: str) -> None:
        _LOG.error("condition failed", action="condition_failed", rule=task.rule, error=error)
        self._recorder.record_verdict(task, _VERDICTS[None])
