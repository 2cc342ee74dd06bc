"""The recall ledger in PostgreSQL: tasks, their progress and answers, and what people ask of them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

import sql
from recall.request import TICKETS, AnyQuestion, Asked, Coverage, Piece, Request, question, task_id

_QUERIES = sql.load("recalls")

# A process that gives no sign for so long is taken for dead.
LEASE = timedelta(seconds=30)
# What `accelerate` does to tickets, and where it ends.
_FASTER, _MOST = 10, 100_000


@dataclass
class Task:
    """A task as this process works on it. `held`: the partial answer so far, as stored."""

    id: UUID
    rule: str
    version: str
    recall: str
    question: AnyQuestion
    asked: Asked
    level: int
    tickets: int
    pieces: list[Piece] | None
    corpus: int | None
    next: int
    failed: int
    held: bytes | None
    revision: int
    tries: int
    created_at: datetime


@dataclass(frozen=True)
class Revision:
    """An answer to be numbered."""

    coverage: Coverage
    answer: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Step:
    """What a history query has brought: cursor and partial answer after it, and the answer where one is due."""

    task: Task
    next: int
    failed: int
    held: bytes | None
    rows: int
    seconds: float
    state: str
    revision: Revision | None = None
    error: str | None = None


@dataclass(frozen=True)
class Command:
    """What somebody asks of an event's recalls."""

    id: int
    command: str
    eid: UUID


class Ledger:
    """The ledger on one connection, for the process of one lease (the epoch of its role)."""

    def __init__(self, connection: Connection[Any], lease: int | None = None) -> None:
        self._connection = connection
        self._lease = lease

    def add(self, requests: Iterable[Request]) -> None:
        """Begin recalls, each once; the caller owns the transaction."""
        for one in requests:
            self._connection.execute(
                _QUERIES["add"],
                {
                    "id": task_id(one.rule, one.version, one.recall, one.asked.eid),
                    "eid": one.asked.eid,
                    "rule": one.rule,
                    "version": one.version,
                    "recall": one.recall,
                    "request": Jsonb(vars(one.question)),
                    "event": Jsonb(one.asked.to_json()),
                    "level": one.level,
                    "tickets": TICKETS,
                },
            )

    def again(self, eid: UUID, version: str) -> None:
        """The event's context has changed: what was compared with it is compared again."""
        self._connection.execute(_QUERIES["again"], {"eid": eid, "version": version})

    def again_where_incomplete(self, rule: str, version: str, oldest: int) -> None:
        """Events from a time on (microseconds) entered a corpus: compare again what was compared without them."""
        self._connection.execute(
            _QUERIES["again_where_incomplete"], {"rule": rule, "version": version, "oldest": oldest}
        )

    def claim(self, level: int, limit: int) -> list[Task]:
        """Take tasks of a level that nobody works on."""
        with self._connection.cursor(row_factory=dict_row) as cursor:
            values = {"lease": self._lease, "length": LEASE, "level": level, "limit": limit}
            rows = cursor.execute(_QUERIES["claim"], values).fetchall()
        return [_task(row) for row in rows]

    def renew(self) -> set[UUID]:
        """A sign of life; returns the tasks that are still this process's own."""
        rows = self._connection.execute(_QUERIES["renew"], {"lease": self._lease, "length": LEASE})
        return {row[0] for row in rows}

    def pin(self, task: Task) -> None:
        """Keep what the task will read."""
        values = {"id": task.id, "lease": self._lease, "pieces": Jsonb(task.pieces), "corpus": task.corpus}
        self._connection.execute(_QUERIES["pin"], values)

    def charge(self, tasks: Iterable[Task]) -> None:
        """The process falls over the next piece of these tasks."""
        self._connection.execute(_QUERIES["charge"], {"ids": [task.id for task in tasks], "lease": self._lease})

    def release(self) -> None:
        """Give all tasks back."""
        self._connection.execute(_QUERIES["release"], {"lease": self._lease})

    def advance(self, step: Step) -> bool:
        """Take in a step, cursor, partial answer and revision together. False: the task is no longer this process's,
        or has been ended, and nothing was taken in."""
        task, revision = step.task, step.revision
        number = task.revision + (revision is not None)
        with self._connection.transaction():
            done = self._connection.execute(
                _QUERIES["advance"],
                {
                    "id": task.id,
                    "lease": self._lease,
                    "before": task.next,
                    "next": step.next,
                    "failed": step.failed,
                    "held": step.held,
                    "rows": step.rows,
                    "seconds": step.seconds,
                    "revision": number,
                    "state": step.state,
                    "error": sql.storable(step.error),
                },
            ).fetchone()
            if done is None:
                return False
            if revision is not None:
                self._put(task.id, number, revision)
        task.next, task.failed, task.held, task.revision, task.tries = step.next, step.failed, step.held, number, 0
        return True

    def _put(self, task: UUID, number: int, revision: Revision) -> None:
        stored = {
            "task": task,
            "number": number,
            "final": revision.coverage.final,
            "coverage": Jsonb(asdict(revision.coverage)),
            "answer": Jsonb(sql.storable(revision.answer)),
        }
        self._connection.execute(_QUERIES["put_revision"], stored)

    def commands(self) -> list[Command]:
        """What is asked and not done, in order."""
        return [Command(*row) for row in self._connection.execute(_QUERIES["open_commands"])]

    def obey(self, command: Command) -> set[UUID]:
        """Carry a command out in the ledger, once; returns the tasks it has touched."""
        with self._connection.transaction():
            values: dict[str, Any] = {"eid": command.eid}
            if command.command == "accelerate":
                rows = self._connection.execute(_QUERIES["accelerate"], {**values, "factor": _FASTER, "most": _MOST})
                touched = {row[0] for row in rows}
                effect = f"{len(touched)} recalls have {_FASTER} times the tickets"
            elif command.command == "cancel":
                rows = self._connection.execute(_QUERIES["end_by_command"], {**values, "state": "cancelled"})
                touched = {row[0] for row in rows}
                self._connection.execute(_QUERIES["discard"], values)
                effect = f"{len(touched)} recalls ended, their answers are discarded"
            else:
                touched = self._finalize(command.eid)
                effect = f"{len(touched)} recalls ended, their last answers are kept"
            if not touched:
                effect = "no recall of this event was going on"
            self._connection.execute(_QUERIES["command_done"], {"id": command.id, "effect": effect})
        return touched

    def _finalize(self, eid: UUID) -> set[UUID]:
        """End the event's tasks; their last answers become final, as partial as they are."""
        with self._connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(_QUERIES["finalize"], {"eid": eid}).fetchall()
        for row in rows:
            if row["number"] is not None:
                stopped = Coverage(**{**row["coverage"], "final": True})
                self._put(row["id"], row["number"] + 1, Revision(stopped, row["answer"]))
        return {row["id"] for row in rows}

    def answers(self, eid: UUID) -> dict[str, dict[str, Any]]:
        """The last answer of each recall of an event, by the recall's name."""
        with self._connection.cursor(row_factory=dict_row) as cursor:
            return {row["recall"]: row for row in cursor.execute(_QUERIES["answers"], {"eid": eid})}

    def unjudged(self) -> list[Task]:
        """Ended tasks with a condition whose alert has no verdict: a process fell before it could judge."""
        with self._connection.cursor(row_factory=dict_row) as cursor:
            return [_task(row) for row in cursor.execute(_QUERIES["unjudged"])]

    def verdict(self, rule: str, eid: UUID, verdict: str) -> None:
        """What history says of an alert."""
        self._connection.execute(_QUERIES["verdict"], {"rule": rule, "eid": eid, "verdict": verdict})


def _task(row: Mapping[str, Any]) -> Task:
    pieces = None if row["pieces"] is None else [(c, low, high) for c, low, high in row["pieces"]]
    held = None if row["held"] is None else bytes(row["held"])
    asked, asking = Asked.from_json(row["eid"], row["event"]), question(row["request"])
    plain = {
        name: row[name]
        for name in (
            *("id", "rule", "version", "recall", "level", "tickets", "corpus"),
            *("next", "failed", "revision", "tries", "created_at"),
        )
    }
    return Task(question=asking, asked=asked, pieces=pieces, held=held, **plain)
