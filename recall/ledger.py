"""The recall ledger in PostgreSQL: tasks, their progress and answers, and what people ask of them."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import structlog
from psycopg import Connection
from psycopg.errors import DeadlockDetected
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

import sql
from recall.request import TICKETS, AnyQuestion, Asked, Coverage, Piece, Request, SqlQuestion, question, task_id

_LOG = structlog.get_logger()
_QUERIES = sql.load("recalls")

# A process that gives no sign for so long is taken for dead.
LEASE = timedelta(seconds=30)
# Alerts without a verdict that are looked at together.
_UNJUDGED = 200

Done = TypeVar("Done")


@dataclass
class Task:
    """A task as this process works on it. `held`: the partial answer so far, as stored; `fence`: the number of
    the claim under which it works."""

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
    skipped: int
    held: bytes | None
    revision: int
    tries: int
    fence: int
    created_at: datetime


@dataclass(frozen=True)
class Revision:
    """An answer to be numbered. `estimates`: for each row, by output, what is likely over all that was asked for."""

    coverage: Coverage
    answer: Sequence[Mapping[str, Any]]
    estimates: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class Step:
    """What a history query has brought: cursor and partial answer after it, and the answer where one is due. `rows` of
    partial answers or events compared, and of these the `results`, what was new."""

    task: Task
    next: int
    failed: int
    held: bytes | None
    rows: int
    results: int
    seconds: float
    state: str
    revision: Revision | None = None
    error: str | None = None
    exceeded: bool = False
    """Whether it was given up because it needs too much memory or time."""
    appends: Mapping[str, int] | None = None
    """How many appends of each stream were there when SQL was asked; None: its pieces have given nothing."""
    took: float = 0.0
    """Seconds of the whole query; `seconds` is the task's part of them."""


@dataclass(frozen=True)
class Standing:
    """What may change in a task while a process works on it."""

    fence: int
    level: int
    tickets: int


@dataclass(frozen=True)
class Terms:
    """What holds for all tasks. `price`: tickets that a task loses for each result; `patience`: how long a suspended
    task waits for feedback."""

    price: int = 1
    patience: timedelta = timedelta(minutes=10)


class Ledger:
    """The ledger on one connection, for the process of one lease."""

    def __init__(self, connection: Connection[Any], lease: int | None = None, terms: Terms = Terms()) -> None:
        self._connection = connection
        self._lease = lease
        self._terms = terms

    @staticmethod
    def lease(connection: Connection[Any]) -> int:
        """A number for a process that claims tasks, its own as long as the connection lives."""
        # A process that is frozen within a transaction would keep its rows from all others.
        connection.execute(_QUERIES["end_frozen_transactions"])
        row = connection.execute(_QUERIES["take_lease"]).fetchone()
        assert row is not None
        return int(row[0])

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

    def again(self, changed: Collection[tuple[UUID, str]]) -> None:
        """Contexts of events of a rule's version have changed: what was compared with them is compared again."""
        values = {"eids": [eid for eid, _ in changed], "versions": [version for _, version in changed]}
        self._connection.execute(_QUERIES["again"], values)

    def again_where_incomplete(self, rule: str, version: str, oldest: int) -> None:
        """Events from a time on (microseconds) entered a corpus: compare again what was compared without them."""
        self._connection.execute(
            _QUERIES["again_where_incomplete"], {"rule": rule, "version": version, "oldest": oldest}
        )

    def claim(self, level: int, limit: int, each: int, full: Collection[str]) -> list[Task]:
        """Take tasks of a level that nobody works on: at most `each` of a rule, none of those that are `full`."""
        with self._connection.cursor(row_factory=dict_row) as cursor:
            held = {"lease": self._lease, "length": LEASE}
            values = {**held, "level": level, "limit": limit, "each": each, "full": list(full)}
            rows = cursor.execute(_QUERIES["claim"], values).fetchall()
        return list(_readable(rows, self._unreadable))

    def _unreadable(self, row: Mapping[str, Any], error: Exception) -> None:
        """A claimed task that this version cannot read has failed."""
        values = {"id": row["id"], "fence": row["fence"], "error": sql.storable(_strange(error))}
        self._connection.execute(_QUERIES["unreadable"], values)

    def unanswered(self) -> bool:
        """Whether tasks of the first level wait that have no answer yet."""
        row = self._connection.execute(_QUERIES["unanswered"]).fetchone()
        return row is not None and bool(row[0])

    def defer(self, tasks: Iterable[UUID]) -> None:
        """Tasks wait for another turn, by whichever process."""
        self._connection.execute(_QUERIES["defer"], {"ids": list(tasks), "lease": self._lease})

    def exceeded(self, rule: str, version: str, recall: str) -> int:
        """How many tasks of a recall, one after the other, have needed too much of late."""
        values = {"rule": rule, "version": version, "recall": recall}
        row = self._connection.execute(_QUERIES["exceeded"], values).fetchone()
        return 0 if row is None else int(row[0])

    def renew(self) -> None:
        """A sign of life."""
        self._change("renew", {"lease": self._lease, "length": LEASE})

    def reclaim(self) -> None:
        """What processes that have died worked on waits for another."""
        self._connection.execute(_QUERIES["reclaim"])

    def at_work(self) -> dict[UUID, Standing]:
        """This process's tasks as they stand, whatever others have made of them."""
        rows = self._connection.execute(_QUERIES["at_work"], {"lease": self._lease})
        return {row[0]: Standing(*row[1:]) for row in rows}

    def pin(self, task: Task) -> None:
        """Keep what the task will read, before it has read any of it."""
        task.next = task.skipped
        values = {"id": task.id, "fence": task.fence, "pieces": Jsonb(task.pieces), "corpus": task.corpus}
        self._connection.execute(_QUERIES["pin"], {**values, "skipped": task.skipped})

    def asked(self, tasks: Iterable[Task]) -> None:
        """A query for the next piece of these tasks begins: should the process be killed, it is taken to be over it."""
        self._change("asked", {"ids": [task.id for task in tasks], "lease": self._lease})

    def charge(self, tasks: Iterable[Task]) -> None:
        """The process falls over the next piece of these tasks."""
        self._change("charge", {"ids": [task.id for task in tasks], "lease": self._lease})

    def release(self) -> None:
        """Give all tasks back."""
        self._change("release", {"lease": self._lease})

    def hold(self, tasks: Iterable[Task]) -> None:
        """Let nobody else change some tasks before the caller's transaction ends, which begins with this."""
        self._connection.execute(_QUERIES["hold"], {"ids": [task.id for task in tasks]})

    def _change(self, query: str, values: Mapping[str, Any]) -> None:
        twice(lambda: self._connection.execute(_QUERIES[query], values))

    def advance(self, step: Step) -> str | None:
        """Take in a step, cursor, partial answer and revision together; returns the task's state after it. None: the
        task is no longer this process's, or has been ended, and nothing was taken in."""
        task, revision = step.task, step.revision
        number = task.revision + (revision is not None)
        # Without an answer it is one statement, and cannot be refused for what it stores.
        with nullcontext() if revision is None else self._connection.transaction():
            done = self._connection.execute(
                _QUERIES["advance"],
                {
                    "id": task.id,
                    "fence": task.fence,
                    "before": task.next,
                    "next": step.next,
                    "seen": Jsonb(_seen(step)),
                    "failed": step.failed,
                    "held": step.held,
                    "rows": step.rows,
                    "results": step.results,
                    "lost": min(step.results * self._terms.price, task.tickets),
                    "seconds": step.seconds,
                    "revision": number,
                    "state": step.state,
                    "error": sql.storable(step.error),
                    "exceeded": step.exceeded,
                    "patience": self._terms.patience,
                },
            ).fetchone()
            if done is None:
                return None
            if revision is not None:
                put_revision(self._connection, task.id, number, revision)
        task.next, task.failed, task.held, task.revision, task.tries = step.next, step.failed, step.held, number, 0
        task.tickets = int(done[1])
        return str(done[0])

    def answers(self, eid: UUID) -> dict[str, dict[str, Any]]:
        """The last answer of each recall of an event, by the recall's name."""
        with self._connection.cursor(row_factory=dict_row) as cursor:
            return {row["recall"]: row for row in cursor.execute(_QUERIES["answers"], {"eid": eid})}

    def unjudged(self) -> list[Task]:
        """Some ended tasks with a condition whose alert has no verdict: a process fell before it could judge. What else
        the condition names has ended, or will never begin."""
        with self._connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(_QUERIES["unjudged"], {"limit": _UNJUDGED}).fetchall()
        return list(_readable(rows, lambda row, _: self.verdict(row["rule"], row["eid"], "no history")))

    def verdict(self, rule: str, eid: UUID, verdict: str) -> None:
        """What history says of an alert."""
        self._connection.execute(_QUERIES["verdict"], {"rule": rule, "eid": eid, "verdict": verdict})


def twice(change: Callable[[], Done]) -> Done:
    """Change rows; once again where others held some of them and waited for the rest: the database ends one of both."""
    try:
        return change()
    except DeadlockDetected:
        return change()


def _seen(step: Step) -> list[tuple[int, int, Mapping[str, int] | None]]:
    """What is kept of where an SQL answer comes from: the pieces from one to another, and of how many appends."""
    task = step.task
    read = isinstance(task.question, SqlQuestion) and step.next > task.next
    return [(task.next, step.next, step.appends)] if read else []


def put_revision(connection: Connection[Any], task: UUID, number: int, revision: Revision) -> None:
    """Store a numbered answer; the caller owns the transaction."""
    stored = {
        "task": task,
        "number": number,
        "final": revision.coverage.final,
        "coverage": Jsonb(asdict(revision.coverage)),
        "answer": Jsonb(sql.storable(revision.answer)),
        "estimates": Jsonb(sql.storable(revision.estimates)) if revision.estimates else None,
    }
    connection.execute(_QUERIES["put_revision"], stored)


def pinned_chunks(connection: Connection[Any]) -> set[int]:
    """Chunks that open tasks may still read: their files are needed."""
    return {row[0] for row in connection.execute(_QUERIES["pinned_chunks"])}


def _readable(
    rows: Iterable[Mapping[str, Any]], otherwise: Callable[[Mapping[str, Any], Exception], None]
) -> Iterator[Task]:
    """The tasks of rows; what was stored by an earlier version and cannot be read is `otherwise` dealt with."""
    for row in rows:
        try:
            task = _task(row)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            _LOG.error("recall failed", action="recall_failed", rule=row["rule"], error=_strange(error))
            otherwise(row, error)
        else:
            yield task


def _strange(error: Exception) -> str:
    return f"what is asked was stored in a form that is not known here: {type(error).__name__}: {error}"


def _task(row: Mapping[str, Any]) -> Task:
    pieces = None if row["pieces"] is None else [(c, low, high) for c, low, high in row["pieces"]]
    held = None if row["held"] is None else bytes(row["held"])
    asked, asking = Asked.from_json(row["eid"], row["event"]), question(row["request"])
    plain = {
        name: row[name]
        for name in (
            *("id", "rule", "version", "recall", "level", "tickets", "corpus"),
            *("next", "failed", "skipped", "revision", "tries", "fence", "created_at"),
        )
    }
    return Task(question=asking, asked=asked, pieces=pieces, held=held, **plain)
