"""Tasks of the recall ledger in PostgreSQL: claims and leases, progress, and answers."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from functools import partial
from typing import TypeVar
from uuid import UUID

import structlog

import sql
from archiver.times import Micros, from_micros
from recall.confidence import match_confidence
from recall.ledger.records import (
    ClaimState,
    Revision,
    SchedulingPolicy,
    Task,
    TaskProgress,
    TaskSpec,
    TurnResult,
    parse_task,
)
from recall.ledger.row_revisions import EventOutput, RevisionStreams
from recall.ledger.stream_ends import add_stream_ends
from recall.requests import (
    AD_HOC_RULE,
    DEFAULT_TICKETS,
    RecallEvent,
    RecallRequest,
    SimilarQuestion,
    SqlQuestion,
    task_id,
)
from recall.revisions import describe_rows, diff, key_rows, question_row_key
from sql.archive import ChunkGateway
from sql.processes import SignalGateway
from sql.recalls import (
    AnswerJson,
    ChangedContextRow,
    LastAnswerRow,
    NewRevisionRow,
    NewTask,
    Progress,
    Read,
    RevisionGateway,
    TaskGateway,
    TaskRow,
)
from sql.similarity import ForecastGateway
from sql.stages import RecalledEventGateway

_LOG = structlog.get_logger()

# The tasks of a process that does not renew its lease for this long are reclaimed.
LEASE_DURATION = timedelta(seconds=30)

Result = TypeVar("Result")


class Ledger:
    """The tasks of the ledger, over one connection. `lease` is needed to claim and change tasks."""

    def __init__(
        self,
        connection: sql.Connection,
        lease: int | None = None,
        policy: SchedulingPolicy = SchedulingPolicy(),
    ) -> None:
        self._connection = connection
        self._tasks = TaskGateway(connection)
        self._chunks = ChunkGateway(connection)
        self._revisions = RevisionGateway(connection)
        self._events = RecalledEventGateway(connection)
        self._streams = RevisionStreams(connection)
        self._signals = SignalGateway(connection)
        # Lease numbers start at 1: without a lease, no task is this process's.
        self._lease = lease or 0
        self._policy = policy

    @staticmethod
    def acquire_lease(connection: sql.Connection) -> int:
        """A lease number for a process that claims tasks, valid as long as the connection lives."""
        return TaskGateway(connection).acquire_lease()

    def add(self, requests: Iterable[RecallRequest]) -> None:
        """Create tasks; one that exists already is left as it is.

        The caller owns the transaction.
        """
        has_added = False
        for request in requests:
            eid = request.event.eid
            task = NewTask(
                id=task_id(request.rule, request.version, request.recall, eid),
                eid=eid,
                rule=request.rule,
                version=request.version,
                recall=request.recall,
                request=vars(request.question),
                event=request.event.to_json(),
                level=request.level,
                tickets=DEFAULT_TICKETS,
            )
            self._tasks.add(task)
            if request.rule != AD_HOC_RULE:
                self._register_event(request)
            has_added = True
        if has_added:
            self._signals.notify_recall_processes()

    def settle_events(
        self,
        rule: str,
        version: str,
        events: Collection[RecallEvent],
        dropped: Collection[UUID],
    ) -> None:
        """Restart the recalls of events that were detected early and are settled now.

        Those of the `dropped` ones are cancelled. The caller owns the transaction.
        """
        if dropped:
            tasks = self._tasks.lock_of_events(rule, version, list(dropped))
            self._tasks.cancel(tasks)
        if events:
            attributes = {event.eid: event.attributes for event in events}
            self._tasks.restart_settled(rule, version, attributes)
            self._signals.notify_recall_processes()

    def _register_event(self, request: RecallRequest) -> None:
        """Store what follows from the recalls of an event, with its first request."""
        event = request.event
        self._events.add(
            request.rule,
            request.version,
            event.eid,
            ts=from_micros(event.ts),
            event=event.to_json(),
            plan=request.plan.to_json(),
        )
        if request.plan.where is not None:
            self._events.await_history(request.rule, event.eid)

    def restart_answered(self, tasks: Collection[UUID]) -> None:
        """Restart recalls that have an answer; revision numbers continue."""
        self._tasks.restart_answered(tasks)
        self._signals.notify_recall_processes()

    def restart_readers(self, changed: Sequence[ChangedContextRow]) -> None:
        """Restart the recalls that have read contexts or surroundings which have changed."""
        self._tasks.restart_readers(changed)
        self._signals.notify_recall_processes()

    def restart_incomplete_comparisons(self, rule: str, version: str, oldest: Micros) -> None:
        """Restart the comparisons that missed events added to a corpus.

        `oldest`: the earliest time of the added events, in microseconds.
        """
        self._tasks.restart_incomplete_comparisons(rule, version, oldest)
        self._signals.notify_recall_processes()

    def claim(
        self, level: int, limit: int, per_rule_limit: int, full_rules: Collection[str]
    ) -> list[Task]:
        """Claim up to `limit` free tasks of a level.

        At most `per_rule_limit` of one rule, and none of the rules in `full_rules`. All tasks of
        an event with stages or a condition are claimed by one process, as long as it lives.
        """
        claim = partial(
            self._tasks.claim,
            self._lease,
            LEASE_DURATION,
            level=level,
            limit=limit,
            per_rule_limit=per_rule_limit,
            full_rules=full_rules,
        )
        rows = retry_on_deadlock(claim)
        return list(_parse_tasks(rows, self._fail_unreadable))

    def claim_task(self, task: UUID) -> list[Task]:
        """Claim a task if it is free; returns no task if not."""
        rows = self._tasks.claim_task(self._lease, LEASE_DURATION, task)
        return list(_parse_tasks(rows, self._fail_unreadable))

    def _fail_unreadable(self, row: TaskRow, error: Exception) -> None:
        """Mark a claimed task as failed that this version cannot parse."""
        self._tasks.fail_unreadable(row.id, row.fence, _unreadable_message(error))

    def has_unanswered(self) -> bool:
        """Whether interactive tasks without any answer are waiting."""
        return self._tasks.has_unanswered()

    def find_claimed(self, task: UUID, fence: int) -> Task | None:
        """A task that a process has claimed; None: the claim has ended, or it cannot be parsed."""
        row = self._tasks.get_claimed(task, fence)
        return None if row is None else next(_parse_tasks([row], lambda *_: None), None)

    def defer(self, tasks: Iterable[UUID]) -> None:
        """Put claimed tasks back into the queue, for any process."""
        self._tasks.defer(list(tasks), self._lease)

    def count_exceeded(self, rule: str, version: str, recall: str) -> int:
        """How many of the latest tasks of a recall in a row have exceeded a limit."""
        return self._tasks.count_exceeded(rule, version, recall)

    def renew_lease(self) -> None:
        """Extend the lease by `LEASE_DURATION`."""
        retry_on_deadlock(lambda: self._tasks.renew_lease(self._lease, LEASE_DURATION))

    def reclaim_abandoned(self) -> None:
        """Put the tasks of expired leases back into the queue."""
        self._tasks.reclaim_abandoned()

    def claimed_tasks(self) -> dict[UUID, ClaimState]:
        """The current state of this process's tasks, by task ID."""
        claims = {}
        for row in self._tasks.list_claimed(self._lease):
            claims[row.id] = ClaimState(row.fence, row.level, row.tickets)
        return claims

    def list_reads(self, task: UUID) -> list[Read]:
        """What each query of an SQL task has read."""
        return self._tasks.list_reads(task)

    def pin_pieces(self, task: Task, started: bool = False) -> Task:
        """Store which pieces a task reads; returns it at its start.

        `started`: its first query has started, see `mark_query_started`.
        """
        progress = task.progress
        stored = None
        if progress.pieces is not None:
            stored = [piece.to_json() for piece in progress.pieces]
        self._tasks.pin_pieces(
            task.id,
            task.spec.fence,
            pieces=stored,
            corpus=progress.corpus,
            model=progress.model,
            skipped=progress.skipped,
            started=started,
        )
        return task.at_start()

    def mark_query_started(self, tasks: Collection[UUID]) -> None:
        """Record that a query for these tasks starts.

        If the process is killed before it ends, that counts as a failed attempt.
        """
        retry_on_deadlock(lambda: self._tasks.mark_query_started(tasks, self._lease))

    def count_failed_attempt(self, tasks: Collection[UUID], error: str, timed_out: bool) -> None:
        """Count a failed attempt at the next piece of these tasks."""
        retry_on_deadlock(
            lambda: self._tasks.count_failed_attempt(tasks, self._lease, error, timed_out)
        )

    def put_off(self, task: Task, delay: timedelta) -> None:
        """Release a task whose query exceeded its time limit; it is attempted again after a delay."""
        self._tasks.put_off(task.id, task.spec.fence, delay)

    def add_delay(self, tasks: Collection[UUID], seconds: float) -> None:
        """Add seconds in which a query of these tasks could not work."""
        retry_on_deadlock(lambda: self._tasks.add_delay(tasks, self._lease, seconds))

    def release_all(self) -> None:
        """Release all tasks of this process."""
        retry_on_deadlock(lambda: self._tasks.release_all(self._lease))

    def lock_tasks(self, tasks: Collection[UUID]) -> None:
        """Lock tasks until the caller's transaction ends. Must be its first statement."""
        self._tasks.lock(tasks)

    def advance(self, task: Task, result: TurnResult) -> tuple[str, TaskProgress] | None:
        """Store cursor, partial answer and revision of a turn in one transaction.

        Returns the task's new state and progress; None if this process has lost the task or the
        task has ended: then nothing is stored.
        """
        revision = result.revision
        number = task.progress.revision
        if revision is None and (result.state != "failed" or number == 0):
            # A single statement needs no transaction of its own.
            stored = self._store_progress(task, result, number)
        else:
            if revision is not None:
                number += 1
            with self._connection.transaction():
                stored = self._store_progress(task, result, number)
                if stored is not None and revision is not None:
                    self._store_revision(task.spec, number, revision)
                if stored is not None and result.state == "failed":
                    self._streams.retract(_task_output(task.spec))
        if stored is None:
            return None
        state, tickets = stored
        progress = replace(
            task.progress,
            next=result.next,
            failed=result.failed,
            partial_answer=result.partial_answer,
            revision=number,
            tries=0,
            timeouts=0,
            put_offs=0,
            error=result.error,
            tickets=tickets,
            statistics=task.progress.statistics.add(result.statistics),
            live_appends=result.live_appends or task.progress.live_appends,
        )
        return state, progress

    def _store_progress(
        self, task: Task, result: TurnResult, number: int
    ) -> tuple[str, int] | None:
        """The task's new state and tickets; None: this process has lost it, or it has ended."""
        statistics = result.statistics
        turn = Progress(
            id=task.id,
            fence=task.spec.fence,
            expected_next=task.progress.next,
            next=result.next,
            reads=_describe_reads(task, result),
            failed=result.failed,
            partial_answer=result.partial_answer,
            rows=statistics.rows,
            results=statistics.results,
            price=statistics.price(self._policy.tickets_per_result, task.progress.tickets),
            seconds=statistics.seconds,
            revision=number,
            state=result.state,
            error=result.error,
            exceeded=result.exceeded,
            feedback_timeout=self._policy.feedback_timeout,
            live_appends=result.live_appends,
        )
        return self._tasks.advance(turn)

    def _store_revision(self, task: TaskSpec, number: int, revision: Revision) -> None:
        if revision.coverage.final and isinstance(task.question, SimilarQuestion):
            recall = (task.rule, task.version, task.recall)
            confidence = match_confidence(
                self._connection, recall, revision.answer, revision.forecast
            )
            revision = replace(revision, comparable=confidence.comparable, match=confidence.match)
        previous: AnswerJson = ()
        if number > 1:
            previous = self._revisions.last_answer(task.id) or ()
        ends = self._chunks.stream_ends()
        coverage = add_stream_ends(revision.coverage, task.question, ends)
        put_revision(self._tasks, task.id, number, replace(revision, coverage=coverage))
        if revision.label_shares is not None:
            recall = (task.rule, task.version, task.recall)
            ForecastGateway(self._connection).put_shown(
                recall, task.event.eid, from_micros(task.event.ts), revision.label_shares
            )
        if task.rule == AD_HOC_RULE:
            return  # nothing follows from its rows
        question = task.question
        row_key = question_row_key(question)
        answer = sql.replace_nul(revision.answer)
        before = key_rows(describe_rows(question, previous), row_key)
        after = key_rows(describe_rows(question, answer), row_key)
        self._streams.append(_task_output(task), diff(before, after))

    def latest_answers(self, eid: UUID) -> dict[str, LastAnswerRow]:
        """The last answer of each recall of an event, by the recall's name."""
        return {row.recall: row for row in self._revisions.list_last_of_event(eid)}


def retry_on_deadlock(operation: Callable[[], Result]) -> Result:
    """Run an operation, and once more if PostgreSQL aborts it to resolve a deadlock."""
    try:
        return operation()
    except sql.DeadlockDetected:
        return operation()


def _describe_reads(
    task: Task, result: TurnResult
) -> list[tuple[int, int, Mapping[str, int] | None]]:
    """The provenance of an SQL turn: from piece, to piece, appends by stream. Else empty."""
    first = task.progress.next
    if isinstance(task.spec.question, SqlQuestion) and result.next > first:
        return [(first, result.next, result.append_counts)]
    return []


def _task_output(task: TaskSpec) -> EventOutput:
    return EventOutput(task.rule, task.version, task.recall, task.event.eid, task.event.ts)


# Fields of a coverage that are stored only if they differ from these.
_LATER_FIELDS = {"ended": {}, "summarised": 0, "asked_to": None, "ranges": 1, "unread": {}}


def put_revision(tasks: TaskGateway, task: UUID, number: int, revision: Revision) -> None:
    """Store an answer under its number; the caller owns the transaction."""
    coverage = asdict(revision.coverage)
    for name, default in _LATER_FIELDS.items():  # as stored before there were any
        if coverage[name] == default:
            del coverage[name]
    row = NewRevisionRow(
        final=revision.coverage.final,
        coverage=coverage,
        answer=revision.answer,
        estimates=revision.estimates,
        comparable=revision.comparable,
        match=revision.match,
        forecast=revision.forecast,
    )
    tasks.add_revision(task, number, row)


def _parse_tasks(
    rows: Iterable[TaskRow], on_error: Callable[[TaskRow, Exception], None]
) -> Iterator[Task]:
    """Parse rows; one that an incompatible version has stored is logged and given to `on_error`."""
    for row in rows:
        try:
            task = parse_task(row)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            _LOG.error(
                "recall failed",
                action="recall_failed",
                rule=row.rule,
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
