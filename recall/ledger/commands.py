"""Commands of operators on recalls: cancel, finalize, accelerate, refine.

A command is stored in the ledger; one of the recall processes executes it and stores its effect.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import partial
from typing import Any, Literal
from uuid import UUID

import structlog
from psycopg import Connection
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

import sql
from recall.confidence import match_probability
from recall.errors import CommandKeyConflict
from recall.ledger.records import Revision
from recall.ledger.tasks import put_revision, retry_on_deadlock
from recall.requests import Coverage
from recall.scheduling import RemainingWork, forecast_finishes

_LOG = structlog.get_logger()
_QUERIES = sql.load("recalls")

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
    connection: Connection[Any],
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
    values = {
        "key": key,
        "command": command,
        "target": Jsonb(stored_target),
        "author": author,
        "older": min_age,
    }
    row = connection.execute(_QUERIES["command"], values).fetchone()
    if row is not None:
        return int(row[0])
    existing = connection.execute(_QUERIES["known_command"], {"key": key}).fetchone()
    assert existing is not None
    number, existing_verb, existing_target, _ = existing
    existing_target.pop("before", None)  # computed from the age by the database
    if (existing_verb, existing_target) != (command, stored_target):
        raise CommandKeyConflict(f"the idempotency key {key!r} belongs to a different command")
    return int(number)


def fetch_effect(connection: Connection[Any], command_id: int) -> Effect | None:
    """The effect of a command; None if it has not been executed yet."""
    row = connection.execute(_QUERIES["command_effect"], {"id": command_id}).fetchone()
    return None if row is None or row[0] is None else Effect(**row[0])


class CommandExecutor:
    """Executes commands. `concurrency`: history queries that run at once, for forecasts."""

    def __init__(self, connection: Connection[Any], concurrency: int) -> None:
        self._connection = connection
        self._concurrency = concurrency

    def execute_pending(self) -> bool:
        """Execute pending commands, oldest first; returns whether there were any."""
        numbers = [row[0] for row in self._connection.execute(_QUERIES["open_commands"])]
        for number in numbers:
            retry_on_deadlock(partial(self._execute, number))
        return bool(numbers)

    def _execute(self, number: int) -> None:
        with self._connection.transaction():
            row = self._connection.execute(_QUERIES["lock_command"], {"id": number}).fetchone()
            if row is None:
                return  # another process executes it
            verb, stored_target = row
            target = {field.name: stored_target.get(field.name) for field in fields(Target)}
            tasks = self._select_task_ids("meant", target)
            before = self._forecast(tasks)
            unanswered = self._apply(verb, tasks)
            after = self._forecast(tasks) if verb in ("accelerate", "refine") else {}
            effect = Effect(
                recalls=len(tasks),
                chunks_left=sum(remaining.pieces_left or 0 for remaining, _ in before.values()),
                seconds_before=_last_finish([seconds for _, seconds in before.values()]),
                seconds_after=_last_finish([seconds for _, seconds in after.values()]),
                unanswered=unanswered,
            )
            values = {"id": number, "effect": Jsonb(asdict(effect))}
            self._connection.execute(_QUERIES["command_done"], values)
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
            tasks = self._select_task_ids("silent", {"all": ignore_deadline})
            if tasks:
                _LOG.info("feedback deadline passed", action="no_feedback", recalls=len(tasks))
                self._finalize(tasks, "ended without feedback")
        return bool(tasks)

    def _select_task_ids(self, query: str, values: Mapping[str, Any]) -> list[UUID]:
        return [row[0] for row in self._connection.execute(_QUERIES[query], values)]

    def _apply(self, verb: Verb, tasks: Sequence[UUID]) -> int:
        """Apply a command; returns how many tasks were finalized without an answer."""
        if verb == "finalize":
            return self._finalize(tasks, None)
        values = {"ids": tasks, "factor": ACCELERATION_FACTOR, "most": _MAX_TICKETS}
        self._connection.execute(_QUERIES[verb], values)
        return 0

    def _finalize(self, tasks: Sequence[UUID], reason: str | None) -> int:
        """End tasks and make their last answers final, even if partial.

        Returns how many have no answer.
        """
        with self._connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(_QUERIES["finalize"], {"ids": tasks, "reason": reason}).fetchall()
        unanswered = 0
        for row in rows:
            if row["number"] is None:
                unanswered += 1
            else:
                self._put_final_revision(row)
        return unanswered

    def _put_final_revision(self, row: Mapping[str, Any]) -> None:
        """Store the last revision of a task again as its final one; `row`: of `finalize`."""
        comparable = None
        if row["kind"] == "similar":
            comparable = match_probability(
                self._connection, row["rule"], row["version"], row["recall"], row["answer"]
            )
        revision = Revision(
            coverage=Coverage(**{**row["coverage"], "final": True}),
            answer=row["answer"],
            estimates=row["estimates"] or (),
            comparable=comparable,
        )
        put_revision(self._connection, row["id"], row["number"] + 1, revision)

    def _forecast(
        self, tasks: Sequence[UUID]
    ) -> dict[UUID, tuple[RemainingWork[UUID], float | None]]:
        """What each task still reads, and in how many seconds it ends; None: suspended."""
        with self._connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(_QUERIES["ahead"], {"ids": tasks}).fetchall()
        remaining_by_task: dict[UUID, RemainingWork[UUID]] = {}
        active: list[RemainingWork[UUID]] = []
        for row in rows:
            remaining = RemainingWork(
                row["id"], row["level"], row["tickets"], row["left"], row["each"]
            )
            remaining_by_task[row["id"]] = remaining
            if row["goes_on"]:
                active.append(remaining)
        finishes = forecast_finishes(active, self._concurrency)
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
