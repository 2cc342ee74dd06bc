"""Conditions (`where`): judged once the recalls that they name are answered."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from recall.engines.condition import holds
from recall.engines.subset import NotServed
from recall.ledger import Ledger, Task
from recall.manager.desk import TRIES
from recall.manager.workers import Asking, EngineLost, GivenUp, Job, Workers, words
from recall.request import SqlQuestion

_LOG = structlog.get_logger()

# Seconds: between two looks for alerts that wait for their condition; until a condition may take the last place.
_SEARCH, _PATIENCE = 2.0, 2.0
_VERDICTS = {True: "kept", False: "held back", None: "no history"}


@dataclass(frozen=True)
class _Condition:
    """A condition that waits for an engine. `answers`: of the recalls that it names, with the types of columns."""

    task: Task
    question: SqlQuestion
    answers: Mapping[str, Any]
    since: float = field(default_factory=time.monotonic)

    def judge(self, asking: Asking) -> bool | None:
        try:
            return asking.engines.spark.judge(self.question, self.task.asked, self.answers)
        except Exception as fault:
            asking.failed(fault)
            raise


class Judging:
    """Alerts held to their history: at once, where that is sure in this process, else by an engine."""

    def __init__(self, ledger: Ledger, workers: Workers) -> None:
        self.jobs: list[Job[bool | None]] = []
        self._ledger = ledger
        self._workers = workers
        self._waiting: list[_Condition] = []
        self._searched = 0.0

    def ended(self, tasks: Iterable[Task]) -> None:
        """Tasks have ended: where all recalls that the rule's `where` names are answered, it can be judged."""
        for task in tasks:
            self._ended(task, all_there=False)

    def _ended(self, task: Task, all_there: bool) -> None:
        """`all_there`: recalls of the event that have not begun will not."""
        question = task.question
        if not isinstance(question, SqlQuestion) or question.where is None:
            return
        if task.tries >= TRIES:
            self._failed(task, "needs too much memory or time")
            return
        answers = self._ledger.answers(task.asked.eid)
        named = {name: answers.get(name) for name in question.judged}
        if all_there and None in named.values():
            self._failed(task, "a recall that it names was never asked")
            return
        if any(one is None or one["state"] in ("waiting", "running", "suspended") for one in named.values()):
            return
        known = {name: ((one["answer"] if one else None) or [], question.judged[name]) for name, one in named.items()}
        try:
            if not self._workers.here:
                raise NotServed("Spark judges all")
            self._ledger.verdict(task.rule, task.asked.eid, _VERDICTS[holds(question, task.asked, known)])
        except NotServed:
            self._waiting.append(_Condition(task, question, known))

    def judge(self) -> None:
        """Give conditions that wait a free engine, and take in what was found."""
        now = time.monotonic()
        if now - self._searched > _SEARCH and not self._waiting and not self.jobs:
            self._searched = now
            for task in self._ledger.unjudged():  # ended by a command, or by the fall of a process
                self._ended(task, all_there=True)
        while self._waiting and self._workers.free:
            condition = self._waiting[0]
            # One at a time may take the last place: Spark may only be starting for the first.
            if not self._workers.spare and (self.jobs or now - condition.since < _PATIENCE):
                break
            self.jobs.append(self._workers.start([condition.task], "condition", self._waiting.pop(0).judge))
        for job in self._workers.ended(self.jobs):
            self.jobs.remove(job)
            self._take_in(job)

    def _take_in(self, job: Job[bool | None]) -> None:
        (task,) = job.tasks
        try:
            found = job.future.result()
        except EngineLost:
            self._workers.charge([task], "engine lost")
            raise
        except GivenUp:
            return  # it is found again, and tried again as often as may be
        except Exception as error:
            self._failed(task, words(error))
            return
        self._ledger.verdict(task.rule, task.asked.eid, _VERDICTS[found])

    def _failed(self, task: Task, error: str) -> None:
        _LOG.error("where failed", action="where_failed", rule=task.rule, error=error)
        self._ledger.verdict(task.rule, task.asked.eid, _VERDICTS[None])
