"""Tasks of the recall ledger in PostgreSQL: claims and leases, progress, and answers."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from datetime import timedelta
from operator import attrgetter, itemgetter
from typing import Any, TypeVar
from uuid import UUID

import structlog
from psycopg import Connection
from psycopg.errors import DeadlockDetected
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

import sql
from recall.confidence import match_probability
from recall.ledger.records import (
    ClaimState,
    Revision,
    SchedulingPolicy,
    Task,
    TurnResult,
    parse_task,
)
from recall.requests import (
    DEFAULT_TICKETS,
    RecallRequest,
    SimilarQuestion,
    SqlQuestion,
    task_id,
)

_LOG = structlog.get_logger()
_QUERIES = sql.load("recalls")

# The tasks of a process that does not renew its lease for this long are reclaimed.
LEASE_DURATION = timedelta(seconds=30)
# Ended tasks without a verdict that are fetched at once.
_UNDECIDED_BATCH_SIZE = 200

Result = TypeVar("Result")


class Ledger:
    """The tasks of the ledger, over one connection. `lease` is needed to claim and change tasks."""

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
        """A lease number for a process that claims tasks, valid as long as the connection lives."""
        # A stopped process within a transaction would block its rows for all other processes.
        connection.execute(_QUERIES["end_frozen_transactions"])
        row = connection.execute(_QUERIES["take_lease"]).fetchone()
        assert row is not None
        return int(row[0])

    def add(self, requests: Iterable[RecallRequest]) -> None:
        """Create tasks; one that exists already is left as it is.

        The caller owns the transaction.
        """
        for request in requests:
            eid = request.event.eid
            values = {
                "id": task_id(request.rule, request.version, request.recall, eid),
                "eid": eid,
                "rule": request.rule,
                "version": request.version,
                "recall": request.recall,
                "request": Jsonb(vars(request.question)),
                "event": Jsonb(request.event.to_json()),
                "level": request.level,
                "tickets": DEFAULT_TICKETS,
            }
            self._connection.execute(_QUERIES["add"], values)

    def restart_comparisons(self, changed_contexts: Collection[tuple[UUID, str]]) -> None:
        """Restart the comparisons of events whose contexts have changed: (eid, rule version)."""
        values = {
            "eids": list(map(itemgetter(0), changed_contexts)),
            "versions": list(map(itemgetter(1), changed_contexts)),
        }
        self._connection.execute(_QUERIES["again"], values)

    def restart_incomplete_comparisons(self, rule: str, version: str, oldest: int) -> None:
        """Restart the comparisons that missed events added to a corpus.

        `oldest`: the earliest time of the added events, in microseconds.
        """
        values = {"rule": rule, "version": version, "oldest": oldest}
        self._connection.execute(_QUERIES["again_where_incomplete"], values)

    def claim(
        self, level: int, limit: int, per_rule_limit: int, full_rules: Collection[str]
    ) -> list[Task]:
        """Claim up to `limit` free tasks of a level.

        At most `per_rule_limit` of one rule, and none of the rules in `full_rules`.
        """
        values = {
            "lease": self._lease,
            "length": LEASE_DURATION,
            "level": level,
            "limit": limit,
            "each": per_rule_limit,
            "full": list(full_rules),
        }
        with self._connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(_QUERIES["claim"], values).fetchall()
        return list(_parse_tasks(rows, self._fail_unreadable))

    def _fail_unreadable(self, row: Mapping[str, Any], error: Exception) -> None:
        """Mark a claimed task as failed that this version cannot parse."""
        values = {
            "id": row["id"],
            "fence": row["fence"],
            "error": sql.replace_nul(_unreadable_message(error)),
        }
        self._connection.execute(_QUERIES["unreadable"], values)

    def has_unanswered(self) -> bool:
        """Whether interactive tasks without any answer are waiting."""
        row = self._connection.execute(_QUERIES["unanswered"]).fetchone()
        return row is not None and bool(row[0])

    def defer(self, tasks: Iterable[UUID]) -> None:
        """Put claimed tasks back into the queue, for any process."""
        self._connection.execute(_QUERIES["defer"], {"ids": list(tasks), "lease": self._lease})

    def count_exceeded(self, rule: str, version: str, recall: str) -> int:
        """How many of the latest tasks of a recall in a row have exceeded a limit."""
        values = {"rule": rule, "version": version, "recall": recall}
        row = self._connection.execute(_QUERIES["exceeded"], values).fetchone()
        if row is None:
            return 0
        return int(row[0])

    def renew_lease(self) -> None:
        """Extend the lease by `LEASE_DURATION`."""
        self._execute_retrying("renew", {"lease": self._lease, "length": LEASE_DURATION})

    def reclaim_abandoned(self) -> None:
        """Put the tasks of expired leases back into the queue."""
        self._connection.execute(_QUERIES["reclaim"])

    def claimed_tasks(self) -> dict[UUID, ClaimState]:
        """The current state of this process's tasks, by task ID."""
        rows = self._connection.execute(_QUERIES["at_work"], {"lease": self._lease})
        return {row[0]: ClaimState(*row[1:]) for row in rows}

    def pin_pieces(self, task: Task) -> None:
        """Store which pieces the task reads, before it reads any of them."""
        task.next = task.skipped
        values = {
            "id": task.id,
            "fence": task.fence,
            "pieces": Jsonb(task.pieces),
            "corpus": task.corpus,
            "skipped": task.skipped,
        }
        self._connection.execute(_QUERIES["pin"], values)

    def mark_query_started(self, tasks: Iterable[Task]) -> None:
        """Record that a query for these tasks starts.

        If the process is killed before it ends, that counts as a failed attempt.
        """
        ids = list(map(attrgetter("id"), tasks))
        self._execute_retrying("asked", {"ids": ids, "lease": self._lease})

    def count_failed_attempt(self, tasks: Iterable[Task]) -> None:
        """Count a failed attempt at the next piece of these tasks."""
        ids = list(map(attrgetter("id"), tasks))
        self._execute_retrying("charge", {"ids": ids, "lease": self._lease})

    def release_all(self) -> None:
        """Release all tasks of this process."""
        self._execute_retrying("release", {"lease": self._lease})

    def lock_tasks(self, tasks: Iterable[Task]) -> None:
        """Lock tasks until the caller's transaction ends. Must be its first statement."""
        self._connection.execute(_QUERIES["hold"], {"ids": list(map(attrgetter("id"), tasks))})

    def _execute_retrying(self, query: str, values: Mapping[str, Any]) -> None:
        retry_on_deadlock(lambda: self._connection.execute(_QUERIES[query], values))

    def advance(self, result: TurnResult) -> str | None:
        """Store cursor, partial answer and revision of a turn in one transaction.

        Updates the task. Returns its new state; None if this process has lost the task or the task
        has ended: then nothing is stored.
        """
        task, revision = result.task, result.revision
        number = task.revision
        if revision is None:
            # A single statement needs no transaction of its own.
            stored = self._store_progress(result, number)
        else:
            number += 1
            with self._connection.transaction():
                stored = self._store_progress(result, number)
                if stored is not None:
                    self._store_revision(task, number, revision)
        if stored is None:
            return None
        task.next = result.next
        task.failed = result.failed
        task.partial_answer = result.partial_answer
        task.revision = number
        task.tries = 0
        state, task.tickets = stored
        return state

    def _store_progress(self, result: TurnResult, number: int) -> tuple[str, int] | None:
        """The task's new state and tickets; None: this process has lost it, or it has ended."""
        task = result.task
        price = result.results * self._policy.tickets_per_result
        values = {
            "id": task.id,
            "fence": task.fence,
            "before": task.next,
            "next": result.next,
            "seen": Jsonb(_describe_reads(result)),
            "failed": result.failed,
            "held": result.partial_answer,
            "rows": result.rows,
            "results": result.results,
            "lost": min(price, task.tickets),
            "seconds": result.seconds,
            "revision": number,
            "state": result.state,
            "error": sql.replace_nul(result.error),
            "exceeded": result.exceeded,
            "patience": self._policy.feedback_timeout,
        }
        row = self._connection.execute(_QUERIES["advance"], values).fetchone()
        return None if row is None else (str(row[0]), int(row[1]))

    def _store_revision(self, task: Task, number: int, revision: Revision) -> None:
        if revision.coverage.final and isinstance(task.question, SimilarQuestion):
            comparable = match_probability(
                self._connection, task.rule, task.version, task.recall, revision.answer
            )
            revision = replace(revision, comparable=comparable)
        put_revision(self._connection, task.id, number, revision)

    def latest_answers(self, eid: UUID) -> dict[str, dict[str, Any]]:
        """The last answer of each recall of an event, by the recall's name."""
        with self._connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(_QUERIES["answers"], {"eid": eid})
            return {row["recall"]: row for row in rows}

    def undecided_tasks(self) -> list[Task]:
        """Ended tasks with a condition whose alert has no verdict: a process exited before it.

        All other recalls that the condition names have ended too, or will never start.
        """
        with self._connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(_QUERIES["unjudged"], {"limit": _UNDECIDED_BATCH_SIZE}).fetchall()
        return list(_parse_tasks(rows, self._set_no_history))

    def _set_no_history(self, row: Mapping[str, Any], _: Exception) -> None:
        self.set_verdict(row["rule"], row["eid"], "no history")

    def set_verdict(self, rule: str, eid: UUID, verdict: str) -> None:
        """Store the verdict of a rule's condition on an alert."""
        self._connection.execute(
            _QUERIES["verdict"], {"rule": rule, "eid": eid, "verdict": verdict}
        )


def retry_on_deadlock(operation: Callable[[], Result]) -> Result:
    """Run an operation, and once more if PostgreSQL aborts it to resolve a deadlock."""
    try:
        return operation()
    except DeadlockDetected:
        return operation()


def _describe_reads(result: TurnResult) -> list[tuple[int, int, Mapping[str, int] | None]]:
    """The provenance of an SQL turn: from piece, to piece, appends by stream. Else empty."""
    task = result.task
    if isinstance(task.question, SqlQuestion) and result.next > task.next:
        return [(task.next, result.next, result.append_counts)]
    return []


def put_revision(connection: Connection[Any], task: UUID, number: int, revision: Revision) -> None:
    """Store an answer under its number; the caller owns the transaction."""
    estimates = None
    if revision.estimates:
        estimates = Jsonb(sql.replace_nul(revision.estimates))
    values = {
        "task": task,
        "number": number,
        "final": revision.coverage.final,
        "coverage": Jsonb(asdict(revision.coverage)),
        "answer": Jsonb(sql.replace_nul(revision.answer)),
        "estimates": estimates,
        "comparable": revision.comparable,
    }
    connection.execute(_QUERIES["put_revision"], values)


def pinned_chunks(connection: Connection[Any]) -> set[int]:
    """The chunks that open tasks may still read: their files must be kept."""
    return {row[0] for row in connection.execute(_QUERIES["pinned_chunks"])}


def _parse_tasks(
    rows: Iterable[Mapping[str, Any]], on_error: Callable[[Mapping[str, Any], Exception], None]
) -> Iterator[Task]:
    """Parse rows; one that an incompatible version has stored is logged and given to `on_error`."""
    for row in rows:
        try:
            task = parse_task(row)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            _LOG.error(
                "recall failed",
                action="recall_failed",
                rule=row["rule"],
                error=_unreadable_message(error),
            )
            on_error(row, error)
        else:
            yield task


def _unreadable_message(error: Exception) -> str:
    return (
        "the stored question was written by an incompatible version:"
        f" {type(error).__name__}: {error}"
    )
