"""Commands of operators on recalls: cancel, finalize, accelerate, refine.

A command is stored in the ledger; one of the recall processes executes it and stores its effect.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import timedelta
from functools import partial
from operator import attrgetter
from typing import Any, Literal
from uuid import UUID

import structlog

import sql
from recall.confidence import MatchConfidence, match_confidence
from recall.errors import CommandKeyConflict
from recall.ledger.records import Revision, parse_statistics
from recall.ledger.row_revisions import EventOutput, RevisionStreams
from recall.ledger.tasks import put_revision, retry_on_deadlock
from recall.requests import LiveCoverage, RecallEvent, parse_coverage
from recall.scheduling import RemainingWork, forecast_finishes
from sql.processes import SignalGateway
from sql.recalls import CommandGateway, TaskGateway
from sql.stages import RecalledEventGateway

_LOG = structlog.get_logger()

Verb = Literal["cancel", "finalize", "accelerate", "refine"]
VERBS: tuple[Verb, ...] = ("cancel", "finalize", "accelerate", "refine")
# `accelerate` multiplies the tickets of a task by this, up to the maximum.
ACCELERATION_FACTOR = 10
_MAX_TICKETS = 100_000


@dataclass(frozen=True)
class Target:
    """Which recalls a command applies to: those that match all fields that are set.

    `before`: created before that time. `rule`: with or without its group.
    """

    eid: str | None = None
    task: str | None = None
    rule: str | None = None
    before: str | None = None

    def to_json(self) -> dict[str, str]:
        """The fields that are set, as stored."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Effect:
    """What a command has changed.

    `recalls`: the number of recalls. `chunks_left`: what they had left to read before the command.
    `seconds_before`, `seconds_after`: the forecast of when the last of them ends, without and with
    the command (0: it has ended; None: it waits for feedback). `unanswered`: how many of the
    finalized recalls had no answer.
    """

    recalls: int
    chunks_left: int
    seconds_before: float | None
    seconds_after: float | None
    unanswered: int = 0


def submit_command(
    connection: sql.Connection,
    key: str,
    command: Verb,
    target: Target,
    author: str,
    min_age: float | None = None,
) -> int:
    """Store a command for execution; returns its number.

    `key` makes it idempotent: the same command under the same key is stored once. `min_age`: only
    recalls created at least this many seconds ago. Raises `CommandKeyConflict`.
    """
    stored_target: dict[str, Any] = target.to_json()
    if min_age is not None:
        stored_target["older"] = min_age
    commands = CommandGateway(connection)
    number = commands.add(key, command, stored_target, author=author, min_age=min_age)
    if number is not None:
        SignalGateway(connection).notify_recall_processes()
        return number
    existing = commands.find_by_key(key)
    assert existing is not None
    existing_target = dict(existing.target)
    existing_target.pop("before", None)  # computed from the age by the database
    if (existing.command, existing_target) != (command, stored_target):
        raise CommandKeyConflict(f"the idempotency key {key!r} belongs to a different command")
    return existing.id


def fetch_effect(connection: sql.Connection, command_id: int) -> Effect | None:
    """The effect of a command; None if it has not been executed yet."""
    effect = CommandGateway(connection).effect(command_id)
    return None if effect is None else Effect(**effect)


class CommandExecutor:
    """Executes commands. `concurrency`: history queries that run at once, for forecasts."""

    def __init__(self, connection: sql.Connection, concurrency: int) -> None:
        self._connection = connection
        self._commands = CommandGateway(connection)
        self._tasks = TaskGateway(connection)
        self._events = RecalledEventGateway(connection)
        self._streams = RevisionStreams(connection)
        self._concurrency = concurrency

    def execute_pending(self) -> bool:
        """Execute pending commands, oldest first; returns whether there were any."""
        numbers = self._commands.list_pending()
        for number in numbers:
            retry_on_deadlock(partial(self._execute, number))
        return bool(numbers)

    def _execute(self, number: int) -> None:
        with self._connection.transaction():
            locked = self._commands.lock(number)
            if locked is None:
                return  # another process executes it
            verb, stored_target = locked
            target = {field.name: stored_target.get(field.name) for field in fields(Target)}
            tasks = self._tasks.lock_matching(target)
            before = self._forecast(tasks)
            unanswered = self._apply(verb, tasks)
            after = self._forecast(tasks) if verb in ("accelerate", "refine") else {}
            effect = Effect(
                recalls=len(tasks),
                chunks_left=sum(remaining.pieces_left for remaining, _ in before.values()),
                seconds_before=_last_finish([seconds for _, seconds in before.values()]),
                seconds_after=_last_finish([seconds for _, seconds in after.values()]),
                unanswered=unanswered,
            )
            self._commands.record_effect(number, asdict(effect))
        _LOG.info(
            "command executed",
            action="command_executed",
            command=verb,
            recalls=len(tasks),
            **target,
        )

    def finalize_without_feedback(self, ignore_deadline: bool = False) -> bool:
        """Finalize the suspended tasks that got no feedback in time; returns whether any did.

        `ignore_deadline`: finalize all suspended tasks, whether or not their time is over.
        """
        return retry_on_deadlock(lambda: self._finalize_without_feedback(ignore_deadline))

    def _finalize_without_feedback(self, ignore_deadline: bool) -> bool:
        with self._connection.transaction():
            tasks = self._tasks.lock_without_feedback(all=ignore_deadline)
            if tasks:
                _LOG.info("feedback deadline passed", action="no_feedback", recalls=len(tasks))
                self._finalize(tasks, "ended without feedback")
        return bool(tasks)

    def _apply(self, verb: str, tasks: Sequence[UUID]) -> int:
        """Apply a command; returns how many tasks were finalized without an answer."""
        if verb == "finalize":
            return self._finalize(tasks, None)
        if verb == "cancel":
            self._cancel(tasks)
        elif verb == "accelerate":
            self._tasks.accelerate(tasks, factor=ACCELERATION_FACTOR, maximum=_MAX_TICKETS)
        else:
            self._tasks.refine(tasks)
        return 0

    def _cancel(self, tasks: Sequence[UUID]) -> None:
        """End tasks, and delete their answers and the rows of these."""
        outputs = []
        for row in self._tasks.cancel(tasks):
            event = RecallEvent.from_json(row.eid, row.event)
            outputs.append(EventOutput(row.rule, row.version, row.recall, row.eid, event.ts))
        for output in sorted(outputs, key=attrgetter("rule", "name", "eid")):
            self._streams.retract(output)

    def end_without_progress(self, timeout: timedelta) -> bool:
        """Finalize the recalls of events without progress for some time, which then end.

        Returns whether there were any.
        """
        return retry_on_deadlock(lambda: self._end_without_progress(timeout))

    def _end_without_progress(self, timeout: timedelta) -> bool:
        with self._connection.transaction():
            stalled = self._events.lock_without_progress(timeout)
            if stalled:
                tasks = [row.task for row in stalled if row.task is not None]
                seconds = timeout.total_seconds()
                self._finalize(tasks, f"timed out: no progress for {seconds:g} s")
                self._events.mark_timed_out([row.eid for row in stalled])
                eids = sorted({str(row.eid) for row in stalled})
                _LOG.warning("events timed out", action="event_timed_out", events=eids)
        return bool(stalled)

    def _finalize(self, tasks: Sequence[UUID], reason: str | None) -> int:
        """End tasks and make their last answers final, even if partial.

        Returns how many have no answer.
        """
        unanswered = 0
        for task in self._tasks.finalize(tasks, reason):
            if task.number is None or task.coverage is None or task.answer is None:
                unanswered += 1
                continue
            confidence = MatchConfidence(None, None)
            if task.kind == "similar":
                recall = (task.rule, task.version, task.recall)
                confidence = match_confidence(self._connection, recall, task.answer, task.forecast)
            coverage = replace(parse_coverage(task.coverage), final=True)
            answer = task.answer
            if isinstance(coverage, LiveCoverage) and coverage.appends:
                answer = []  # no rows since the previous answer
            revision = Revision(
                coverage=coverage,
                answer=answer,
                estimates=task.estimates or (),
                comparable=confidence.comparable,
                match=confidence.match,
                forecast=task.forecast,
            )
            put_revision(self._tasks, task.id, task.number + 1, revision)
        return unanswered

    def _forecast(
        self, tasks: Sequence[UUID]
    ) -> dict[UUID, tuple[RemainingWork[UUID], float | None]]:
        return _forecast(self._tasks, tasks, self._concurrency)


def forecast_tasks(
    connection: sql.Connection, tasks: Sequence[UUID], concurrency: int
) -> dict[UUID, float | None]:
    """In how many seconds each task ends; None: it is suspended.

    `concurrency`: history queries that run at once.
    """
    forecasts = _forecast(TaskGateway(connection), tasks, concurrency)
    return {task: seconds for task, (_, seconds) in forecasts.items()}


def _forecast(
    gateway: TaskGateway, tasks: Sequence[UUID], concurrency: int
) -> dict[UUID, tuple[RemainingWork[UUID], float | None]]:
    """What each task still reads, and in how many seconds it ends; None: suspended."""
    remaining_by_task: dict[UUID, RemainingWork[UUID]] = {}
    active: list[RemainingWork[UUID]] = []
    for row in gateway.list_remaining_work(tasks):
        remaining = RemainingWork(
            row.id, row.level, row.tickets, row.pieces_left, parse_statistics(row)
        )
        remaining_by_task[row.id] = remaining
        if row.is_active:
            active.append(remaining)
    finishes = forecast_finishes(active, concurrency)
    return {
        task: (remaining_by_task[task], finishes.get(task))
        for task in tasks
        if task in remaining_by_task
    }


def _last_finish(finishes: Sequence[float | None]) -> float | None:
    """The latest of some times in seconds, 0 for none; None if one of them is unknown."""
    if None in finishes:
        return None
    return round(max(filter(None, finishes), default=0.0), 3)
