"""The recall ledger in PostgreSQL: tasks, their progress and answers, and what people ask of them."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

import structlog
from psycopg import Connection
from psycopg.errors import DeadlockDetected
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

import sql
from recall.confidence import probability
from recall.requests import (
    DEFAULT_TICKETS,
    AnyQuestion,
    Coverage,
    Piece,
    RecallEvent,
    RecallRequest,
    SimilarQuestion,
    SqlQuestion,
    parse_question,
    task_id,
)

_LOG = structlog.get_logger()
_QUERIES = sql.load("recalls")

# A process that gives no sign for so long is taken for dead.
LEASE_DURATION = timedelta(seconds=30)
# Alerts without a verdict that are looked at together.
_UNDECIDED_BATCH_SIZE = 200

Result = TypeVar("Result")


@dataclass
class Task:
    """A task as this process works on it. `held`: the partial answer so far, as stored; `fence`: the number of
    the claim under which it works."""

    id: UUID
    rule: str
    version: str
    recall: str
    question: AnyQuestion
    event: RecallEvent
    level: int
    tickets: int
    pieces: list[Piece] | None
    corpus: int | None
    next: int
    failed: int
    skipped: int
    partial_answer: bytes | None
    revision: int
    tries: int
    fence: int
    created_at: datetime


@dataclass(frozen=True)
class Revision:
    """An answer to be numbered. `estimates`: for each row, by output, what is likely over all that was asked for;
    `comparable`: of a final similarity answer, see `recall.confidence`."""

    coverage: Coverage
    answer: Sequence[Mapping[str, Any]]
    estimates: Sequence[Mapping[str, Any]] = ()
    comparable: float | None = None


@dataclass(frozen=True)
class TurnResult:
    """What a history query has brought: cursor and partial answer after it, and the answer where one is due. `rows` of
    partial answers or events compared, and of these the `results`, what was new."""

    task: Task
    next: int
    failed: int
    partial_answer: bytes | None
    rows: int
    results: int
    seconds: float
    state: str
    revision: Revision | None = None
    error: str | None = None
    exceeded: bool = False
    """Whether it was given up because it needs too much memory or time."""
    append_counts: Mapping[str, int] | None = None
    """How many appends of each stream were there when SQL was asked; None: its pieces have given nothing."""
    query_seconds: float = 0.0
    """Seconds of the whole query; `seconds` is the task's part of them."""


@dataclass(frozen=True)
class ClaimState:
    """What may change in a task while a process works on it."""

    fence: int
    level: int
    tickets: int


@dataclass(frozen=True)
class SchedulingPolicy:
    """What holds for all tasks. `price`: tickets that a task loses for each result; `patience`: how long a suspended
    task waits for feedback."""

    tickets_per_result: int = 1
    feedback_timeout: timedelta = timedelta(minutes=10)


class Ledger:
    """The ledger on one connection, for the process of one lease."""

    def __init__(
        self,
        connection: Connection[Any],
        lease: int | None = None,
        policy: SchedulingPolicy = SchedulingPolicy(),
    ) -> None:
        self._connection = connection
        self._lease = lease
        self._policy = policy

    @staticmethod
    def acquire_lease(connection: Connection[Any]) -> int:
        """A number for a process that claims tasks, its own as long as the connection lives."""
        # A process that is frozen within a transaction would keep its rows from all others.
        connection.execute(_QUERIES["end_frozen_transactions"])
        row = connection.execute(_QUERIES["take_lease"]).fetchone()
        assert row is not None
        return int(row[0])

    def add(self, requests: Iterable[RecallRequest]) -> None:
        """Begin recalls, each once; the caller owns the transaction."""
        for one in requests:
            self._connection.execute(
                _QUERIES["add"],
                {
                    "id": task_id(one.rule, one.version, one.recall, one.event.eid),
                    "eid": one.event.eid,
                    "rule": one.rule,
                    "version": one.version,
                    "recall": one.recall,
                    "request": Jsonb(vars(one.question)),
                    "event": Jsonb(one.event.to_json()),
                    "level": one.level,
                    "tickets": DEFAULT_TICKETS,
                },
            )

    def restart_comparisons(self, changed_contexts: Collection[tuple[UUID, str]]) -> None:
        """Contexts of events of a rule's version have changed: what was compared with them is compared again."""
        values = {
            "eids": [eid for eid, _ in changed_contexts],
            "versions": [version for _, version in changed_contexts],
        }
        self._connection.execute(_QUERIES["again"], values)

    def restart_incomplete_comparisons(self, rule: str, version: str, oldest: int) -> None:
        """Events from a time on (microseconds) entered a corpus: compare again what was compared without them."""
        self._connection.execute(
            _QUERIES["again_where_incomplete"], {"rule": rule, "version": version, "oldest": oldest}
        )

    def claim(
        self, level: int, limit: int, per_rule_limit: int, full_rules: Collection[str]
    ) -> list[Task]:
        """Take tasks of a level that nobody works on: at most `each` of a rule, none of those that are `full`."""
        with self._connection.cursor(row_factory=dict_row) as cursor:
            held = {"lease": self._lease, "length": LEASE_DURATION}
            values = {
                **held,
                "level": level,
                "limit": limit,
                "each": per_rule_limit,
                "full": list(full_rules),
            }
            rows = cursor.execute(_QUERIES["claim"], values).fetchall()
        return list(_parse_tasks(rows, self._fail_unreadable))

    def _fail_unreadable(self, row: Mapping[str, Any], error: Exception) -> None:
        """A claimed task that this version cannot read has failed."""
        values = {
            "id": row["id"],
            "fence": row["fence"],
            "error": sql.replace_nul(_unreadable_message(error)),
        }
        self._connection.execute(_QUERIES["unreadable"], values)

    def has_unanswered(self) -> bool:
        """Whether tasks of the first level wait that have no answer yet."""
        row = self._connection.execute(_QUERIES["unanswered"]).fetchone()
        return row is not None and bool(row[0])

    def defer(self, tasks: Iterable[UUID]) -> None:
        """Tasks wait for another turn, by whichever process."""
        self._connection.execute(_QUERIES["defer"], {"ids": list(tasks), "lease": self._lease})

    def count_exceeded(self, rule: str, version: str, recall: str) -> int:
        """How many tasks of a recall, one after the other, have needed too much of late."""
        values = {"rule": rule, "version": version, "recall": recall}
        row = self._connection.execute(_QUERIES["exceeded"], values).fetchone()
        return 0 if row is None else int(row[0])

    def renew_lease(self) -> None:
        """A sign of life."""
        self._execute_retrying("renew", {"lease": self._lease, "length": LEASE_DURATION})

    def reclaim_abandoned(self) -> None:
        """What processes that have died worked on waits for another."""
        self._connection.execute(_QUERIES["reclaim"])

    def claimed_tasks(self) -> dict[UUID, ClaimState]:
        """This process's tasks as they stand, whatever others have made of them."""
        rows = self._connection.execute(_QUERIES["at_work"], {"lease": self._lease})
        return {row[0]: ClaimState(*row[1:]) for row in rows}

    def pin_pieces(self, task: Task) -> None:
        """Keep what the task will read, before it has read any of it."""
        task.next = task.skipped
        values = {
            "id": task.id,
            "fence": task.fence,
            "pieces": Jsonb(task.pieces),
            "corpus": task.corpus,
        }
        self._connection.execute(_QUERIES["pin"], {**values, "skipped": task.skipped})

    def mark_query_started(self, tasks: Iterable[Task]) -> None:
        """A query for the next piece of these tasks begins: should the process be killed, it is taken to be over it."""
        self._execute_retrying("asked", {"ids": [task.id for task in tasks], "lease": self._lease})

    def count_failed_attempt(self, tasks: Iterable[Task]) -> None:
        """The process falls over the next piece of these tasks."""
        self._execute_retrying("charge", {"ids": [task.id for task in tasks], "lease": self._lease})

    def release_all(self) -> None:
        """Give all tasks back."""
        self._execute_retrying("release", {"lease": self._lease})

    def lock_tasks(self, tasks: Iterable[Task]) -> None:
        """Let nobody else change some tasks before the caller's transaction ends, which begins with this."""
        self._connection.execute(_QUERIES["hold"], {"ids": [task.id for task in tasks]})

    def _execute_retrying(self, query: str, values: Mapping[str, Any]) -> None:
        retry_on_deadlock(lambda: self._connection.execute(_QUERIES[query], values))

    def advance(self, result: TurnResult) -> str | None:
        """Take in a step, cursor, partial answer and revision together; returns the task's state after it. None: the
        task is no longer this process's, or has been ended, and nothing was taken in."""
        task, revision = result.task, result.revision
        number = task.revision + (revision is not None)
        # Without an answer it is one statement, and cannot be refused for what it stores.
        with nullcontext() if revision is None else self._connection.transaction():
            done = self._connection.execute(
                _QUERIES["advance"],
                {
                    "id": task.id,
                    "fence": task.fence,
                    "before": task.next,
                    "next": result.next,
                    "seen": Jsonb(_describe_reads(result)),
                    "failed": result.failed,
                    "held": result.partial_answer,
                    "rows": result.rows,
                    "results": result.results,
                    "lost": min(result.results * self._policy.tickets_per_result, task.tickets),
                    "seconds": result.seconds,
                    "revision": number,
                    "state": result.state,
                    "error": sql.replace_nul(result.error),
                    "exceeded": result.exceeded,
                    "patience": self._policy.feedback_timeout,
                },
            ).fetchone()
            if done is None:
                return None
            if revision is not None:
                if revision.coverage.final and isinstance(task.question, SimilarQuestion):
                    about = task.rule, task.version, task.recall
                    comparable = probability(self._connection, *about, revision.answer)
                    revision = replace(revision, comparable=comparable)
                put_revision(self._connection, task.id, number, revision)
        task.next, task.failed, task.partial_answer, task.revision, task.tries = (
            result.next,
            result.failed,
            result.partial_answer,
            number,
            0,
        )
        task.tickets = int(done[1])
        return str(done[0])

    def latest_answers(self, eid: UUID) -> dict[str, dict[str, Any]]:
        """The last answer of each recall of an event, by the recall's name."""
        with self._connection.cursor(row_factory=dict_row) as cursor:
            return {row["recall"]: row for row in cursor.execute(_QUERIES["answers"], {"eid": eid})}

    def undecided_tasks(self) -> list[Task]:
        """Some ended tasks with a condition whose alert has no verdict: a process fell before it could judge. What else
        the condition names has ended, or will never begin."""
        with self._connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(_QUERIES["unjudged"], {"limit": _UNDECIDED_BATCH_SIZE}).fetchall()
        return list(
            _parse_tasks(
                rows, lambda row, _: self.set_verdict(row["rule"], row["eid"], "no history")
            )
        )

    def set_verdict(self, rule: str, eid: UUID, verdict: str) -> None:
        """What history says of an alert."""
        self._connection.execute(
            _QUERIES["verdict"], {"rule": rule, "eid": eid, "verdict": verdict}
        )


def retry_on_deadlock(operation: Callable[[], Result]) -> Result:
    """Change rows; once again where others held some of them and waited for the rest: the database ends one of both."""
    try:
        return operation()
    except DeadlockDetected:
        return operation()


def _describe_reads(step: TurnResult) -> list[tuple[int, int, Mapping[str, int] | None]]:
    """What is kept of where an SQL answer comes from: the pieces from one to another, and of how many appends."""
    task = step.task
    read = isinstance(task.question, SqlQuestion) and step.next > task.next
    return [(task.next, step.next, step.append_counts)] if read else []


def put_revision(connection: Connection[Any], task: UUID, number: int, revision: Revision) -> None:
    """Store a numbered answer; the caller owns the transaction."""
    stored = {
        "task": task,
        "number": number,
        "final": revision.coverage.final,
        "coverage": Jsonb(asdict(revision.coverage)),
        "answer": Jsonb(sql.replace_nul(revision.answer)),
        "estimates": Jsonb(sql.replace_nul(revision.estimates)) if revision.estimates else None,
        "comparable": revision.comparable,
    }
    connection.execute(_QUERIES["put_revision"], stored)


def pinned_chunks(connection: Connection[Any]) -> set[int]:
    """Chunks that open tasks may still read: their files are needed."""
    return {row[0] for row in connection.execute(_QUERIES["pinned_chunks"])}


def _parse_tasks(
    rows: Iterable[Mapping[str, Any]], otherwise: Callable[[Mapping[str, Any], Exception], None]
) -> Iterator[Task]:
    """The tasks of rows; what was stored by an earlier version and cannot be read is `otherwise` dealt with."""
    for row in rows:
        try:
            task = _parse_task(row)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            _LOG.error(
                "recall failed",
                action="recall_failed",
                rule=row["rule"],
                error=_unreadable_message(error),
            )
            otherwise(row, error)
        else:
            yield task


def _unreadable_message(error: Exception) -> str:
    return f"what is asked was stored in a form that is not known here: {type(error).__name__}: {error}"


def _parse_task(row: Mapping[str, Any]) -> Task:
    pieces = None if row["pieces"] is None else [(c, low, high) for c, low, high in row["pieces"]]
    held = None if row["held"] is None else bytes(row["held"])
    asked, asking = RecallEvent.from_json(row["eid"], row["event"]), parse_question(row["request"])
    plain = {
        name: row[name]
        for name in (
            *("id", "rule", "version", "recall", "level", "tickets", "corpus"),
            *("next", "failed", "skipped", "revision", "tries", "fence", "created_at"),
        )
    }
    return Task(question=asking, event=asked, pieces=pieces, partial_answer=held, **plain)
