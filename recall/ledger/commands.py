"""What people ask of recalls that go on, and what comes of it. One of the recall processes carries a command out."""

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
from recall.confidence import probability
from recall.errors import CommandKeyConflict
from recall.ledger.tasks import Revision, put_revision, retry_on_deadlock
from recall.requests import Coverage
from recall.scheduling import RemainingWork, forecast_finishes

_LOG = structlog.get_logger()
_QUERIES = sql.load("recalls")

Verb = Literal["cancel", "finalize", "accelerate", "refine"]
VERBS: tuple[Verb, ...] = ("cancel", "finalize", "accelerate", "refine")
# What `accelerate` does to tickets, and where it ends.
ACCELERATION_FACTOR, _MAX_TICKETS = 10, 100_000


@dataclass(frozen=True)
class Target:
    """Which recalls are meant: all that is given must hold. `before`: asked for before that time; `rule` with or
    without its group."""

    eid: str | None = None
    task: str | None = None
    rule: str | None = None
    before: str | None = None

    def to_json(self) -> dict[str, str]:
        """As stored."""
        return {name: value for name, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Effect:
    """What a command has done: to how many recalls, with how many chunks left (before it), and in how many seconds the
    last of them will have ended, had nothing been asked and now (0: it has ended; None: it waits for feedback).
    `unanswered`: of those that were finalized, how many had no answer."""

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
    """Ask for something, once for each key; returns its number. `older`: only recalls asked for so many seconds ago
    or longer. Raises `KeyTaken`."""
    asked = {**target.to_json(), **({} if min_age is None else {"older": min_age})}
    values = {
        "key": key,
        "command": command,
        "target": Jsonb(asked),
        "author": author,
        "older": min_age,
    }
    row = connection.execute(_QUERIES["command"], values).fetchone()
    if row is not None:
        return int(row[0])
    known = connection.execute(_QUERIES["known_command"], {"key": key}).fetchone()
    assert known is not None
    number, verb, was, _ = known
    if verb != command or {name: value for name, value in was.items() if name != "before"} != asked:
        raise CommandKeyConflict(f"the key {key!r} was used for another command")
    return int(number)


def fetch_effect(connection: Connection[Any], command_id: int) -> Effect | None:
    """What a command has done; None: it waits to be carried out."""
    row = connection.execute(_QUERIES["command_effect"], {"id": command_id}).fetchone()
    return None if row is None or row[0] is None else Effect(**row[0])


class CommandExecutor:
    """The commands of one workspace. `places`: history queries that run at once."""

    def __init__(self, connection: Connection[Any], concurrency: int) -> None:
        self._connection = connection
        self._concurrency = concurrency

    def execute_pending(self) -> bool:
        """Carry out what is asked, in order; returns whether there was anything."""
        waiting = [row[0] for row in self._connection.execute(_QUERIES["open_commands"])]
        for number in waiting:
            retry_on_deadlock(partial(self._execute, number))
        return bool(waiting)

    def _execute(self, number: int) -> None:
        with self._connection.transaction():
            row = self._connection.execute(_QUERIES["lock_command"], {"id": number}).fetchone()
            if row is None:
                return  # another process carries it out
            verb, target = row[0], {field.name: row[1].get(field.name) for field in fields(Target)}
            tasks = self._select_task_ids("meant", target)
            before = self._forecast(tasks)
            unanswered = self._apply(verb, tasks)
            after = self._forecast(tasks) if verb in ("accelerate", "refine") else {}
            done = Effect(
                len(tasks),
                sum(one.pieces_left or 0 for one, _ in before.values()),
                _last_finish([seconds for _, seconds in before.values()]),
                _last_finish([seconds for _, seconds in after.values()]),
                unanswered,
            )
            self._connection.execute(
                _QUERIES["command_done"], {"id": number, "effect": Jsonb(asdict(done))}
            )
        _LOG.info("command", action=verb, recalls=len(tasks), **target)

    def finalize_without_feedback(self, ignore_deadline: bool = False) -> bool:
        """End tasks of events for which feedback was waited in vain, or of all that wait: their last answers stay.
        Returns whether there were any."""
        return retry_on_deadlock(lambda: self._finalize_without_feedback(ignore_deadline))

    def _finalize_without_feedback(self, everything: bool) -> bool:
        with self._connection.transaction():
            tasks = self._select_task_ids("silent", {"all": everything})
            if tasks:
                _LOG.info("no feedback", action="no_feedback", recalls=len(tasks))
                self._finalize(tasks, "ended without feedback")
        return bool(tasks)

    def _select_task_ids(self, query: str, values: Mapping[str, Any]) -> list[UUID]:
        return [row[0] for row in self._connection.execute(_QUERIES[query], values)]

    def _apply(self, verb: Verb, tasks: Sequence[UUID]) -> int:
        """Returns how many have ended without an answer that they might have kept."""
        if verb == "finalize":
            return self._finalize(tasks, None)
        self._connection.execute(
            _QUERIES[verb], {"ids": tasks, "factor": ACCELERATION_FACTOR, "most": _MAX_TICKETS}
        )
        return 0

    def _finalize(self, tasks: Sequence[UUID], reason: str | None) -> int:
        """End tasks; their last answers become final, as partial as they are. Returns how many have none."""
        with self._connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(_QUERIES["finalize"], {"ids": tasks, "reason": reason}).fetchall()
        for row in rows:
            if row["number"] is not None:
                stopped = Coverage(**{**row["coverage"], "final": True})
                comparable = None
                if row["kind"] == "similar":
                    about = row["rule"], row["version"], row["recall"]
                    comparable = probability(self._connection, *about, row["answer"])
                put_revision(
                    self._connection,
                    row["id"],
                    row["number"] + 1,
                    Revision(stopped, row["answer"], row["estimates"] or (), comparable),
                )
        return sum(row["number"] is None for row in rows)

    def _forecast(
        self, tasks: Sequence[UUID]
    ) -> dict[UUID, tuple[RemainingWork[UUID], float | None]]:
        """What some tasks still read, and in how many seconds they will have; None: suspended."""
        with self._connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(_QUERIES["ahead"], {"ids": tasks}).fetchall()
        ahead = {
            row["id"]: RemainingWork(
                row["id"], row["level"], row["tickets"], row["left"], row["each"]
            )
            for row in rows
        }
        ends = forecast_finishes(
            [ahead[row["id"]] for row in rows if row["goes_on"]], self._concurrency
        )
        return {task: (ahead[task], ends.get(task)) for task in tasks if task in ahead}


def _last_finish(ends: Sequence[float | None]) -> float | None:
    known = [one for one in ends if one is not None]
    return None if len(known) < len(ends) else round(max(known, default=0.0), 3)
