"""Conditions (`where`): judged once the recalls that they name are answered."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from recall.engines import evaluate_condition
from recall.errors import Cancelled, EngineLost, SparkRequired
from recall.ledger import Ledger, Task
from recall.requests import SqlQuestion
from recall.worker.active_tasks import MAX_ATTEMPTS
from recall.worker.query_slots import Job, QuerySlot, Workers, summarise_error

_LOG = structlog.get_logger()

# Seconds: between two looks for alerts that wait for their condition; until a condition may take the last place.
_SEARCH_INTERVAL, _LAST_SLOT_DELAY = 2.0, 2.0
_VERDICTS = {True: "kept", False: "held back", None: "no history"}


@dataclass(frozen=True)
class _PendingCondition:
    """A condition that waits for an engine. `answers`: of the recalls that it names, with the types of columns."""

    task: Task
    question: SqlQuestion
    answers: Mapping[str, Any]
    waiting_since: float = field(default_factory=time.monotonic)

    def evaluate(self, slot: QuerySlot) -> bool | None:
        try:
            return slot.engines.spark.evaluate_condition(
                self.question, self.task.event, self.answers
            )
        except Exception as fault:
            slot.raise_if_interrupted(fault)
            raise


class ConditionEvaluator:
    """Alerts held to their history: at once, where that is sure in this process, else by an engine."""

    def __init__(self, ledger: Ledger, workers: Workers) -> None:
        self.jobs: list[Job[bool | None]] = []
        self._ledger = ledger
        self._workers = workers
        self._pending: list[_PendingCondition] = []
        self._last_search = 0.0

    def add_ended(self, tasks: Iterable[Task]) -> None:
        """Tasks have ended: where all recalls that the rule's `where` names are answered, it can be judged."""
        for task in tasks:
            self._add_ended(task, all_there=False)

    def _add_ended(self, task: Task, all_there: bool) -> None:
        """`all_there`: recalls of the event that have not begun will not."""
        question = task.question
        if not isinstance(question, SqlQuestion) or question.where is None:
            return
        if task.tries >= MAX_ATTEMPTS:
            self._record_failure(task, "needs too much memory or time")
            return
        answers = self._ledger.latest_answers(task.event.eid)
        named = {name: answers.get(name) for name in question.judged}
        if all_there and None in named.values():
            self._record_failure(task, "a recall that it names was never asked")
            return
        if any(
            one is None or one["state"] in ("waiting", "running", "suspended")
            for one in named.values()
        ):
            return
        known = {
            name: ((one["answer"] if one else None) or [], question.judged[name])
            for name, one in named.items()
        }
        try:
            if not self._workers.has_local_engine:
                raise SparkRequired("Spark judges all")
            self._ledger.set_verdict(
                task.rule,
                task.event.eid,
                _VERDICTS[evaluate_condition(question, task.event, known)],
            )
        except SparkRequired:
            self._pending.append(_PendingCondition(task, question, known))

    def evaluate_pending(self) -> None:
        """Give conditions that wait a free engine, and take in what was found."""
        now = time.monotonic()
        if now - self._last_search > _SEARCH_INTERVAL and not self._pending and not self.jobs:
            self._last_search = now
            for (
                task
            ) in self._ledger.undecided_tasks():  # ended by a command, or by the fall of a process
                self._add_ended(task, all_there=True)
        while self._pending and self._workers.free_slots:
            condition = self._pending[0]
            # One at a time may take the last place: Spark may only be starting for the first.
            if not self._workers.background_slots and (
                self.jobs or now - condition.waiting_since < _LAST_SLOT_DELAY
            ):
                break
            self.jobs.append(
                self._workers.start([condition.task], "condition", self._pending.pop(0).evaluate)
            )
        for job in self._workers.pop_finished(self.jobs):
            self.jobs.remove(job)
            self._record(job)

    def _record(self, job: Job[bool | None]) -> None:
        (task,) = job.tasks
        try:
            found = job.future.result()
        except EngineLost:
            self._workers.count_failed_attempt([task], "engine lost")
            raise
        except Cancelled:
            return  # it is found again, and tried again as often as may be
        except Exception as error:
            self._record_failure(task, summarise_error(error))
            return
        self._ledger.set_verdict(task.rule, task.event.eid, _VERDICTS[found])

    def _record_failure(self, task: Task, error: str) -> None:
        _LOG.error("where failed", action="where_failed", rule=task.rule, error=error)
        self._ledger.set_verdict(task.rule, task.event.eid, _VERDICTS[None])
