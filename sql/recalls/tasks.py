"""Tasks of the recall ledger: claims and leases, turns, and what operators see of them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.types.json import Jsonb

from sql.gateway import Gateway
from sql.recalls.revisions import NewRevisionRow
from sql.values import replace_nul


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """A claimed or ended task.

    `partial_answer`: as Arrow or JSON bytes. `live_appends`: by stream, up to which append the
    answer includes live rows; None: none.
    """

    id: UUID
    eid: UUID
    rule: str
    version: str
    recall: str
    request: Mapping[str, Any]
    event: Mapping[str, Any]
    level: int
    tickets: int
    pieces: Sequence[tuple[int, int | None, int]] | None
    corpus: int | None
    model: int | None
    next: int
    failed: int
    skipped: int
    partial_answer: bytes | None
    revision: int
    tries: int
    rows: int
    results: int
    seconds: float
    fence: int
    created_at: datetime
    live_appends: Mapping[str, int] | None = None
    timeouts: int = 0
    put_offs: int = 0
    error: str | None = None


class Read(NamedTuple):
    """What a query of a task has read.

    `first`, `end`: its pieces, from the first to before the end. `append_counts`: the appends to
    each stream that it saw; None: it returned nothing.
    """

    first: int
    end: int
    append_counts: Mapping[str, int] | None


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """The fields of a claimed task that other processes may change."""

    id: UUID
    fence: int
    level: int
    tickets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSummaryRow:
    """A task as `moirae recalls list` shows it. `read`: pieces that are done.

    `error`: why it failed; of an open task, why its last query did. `retry_at`: when that is tried
    again; None: at once. `delayed`: seconds in which its queries waited for Spark to start or for a
    busy machine, which no time limit counts.
    """

    id: UUID
    eid: UUID
    rule: str
    recall: str
    state: str
    level: int
    tickets: int
    pieces: int | None
    read: int
    failed: int
    skipped: int
    revision: int
    rows: int
    results: int
    seconds: float
    error: str | None
    event: Mapping[str, Any]
    created_at: datetime
    started_at: datetime | None
    first_at: datetime | None
    deadline: datetime | None
    ended_at: datetime | None
    retry_at: datetime | None = None
    delayed: float = 0.0


@dataclass(frozen=True, slots=True)
class MeasuredRecall:
    """What the last ended tasks of a recall have cost. `counts`: pieces that each has read."""

    recall: str
    recalls: int
    pieces: int
    counts: Sequence[int]
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Which tasks to list: those that match all criteria that are not None.

    `rule`: with or without its group. `after`: creation time, recall and ID of the last task of the
    previous page.
    """

    id: UUID | None = None
    eid: UUID | None = None
    rule: str | None = None
    states: Collection[str] | None = None
    after: tuple[datetime, str, UUID] | None = None

    def parameters(self) -> dict[str, Any]:
        """Values of a statement that lists tasks."""
        cursor_at, cursor_recall, cursor_id = self.after or (None, None, None)
        return {
            "id": self.id,
            "eid": self.eid,
            "rule": self.rule,
            "states": None if self.states is None else list(self.states),
            "cursor_at": cursor_at,
            "cursor_recall": cursor_recall,
            "cursor_id": cursor_id,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RemainingWorkRow:
    """What a task has left to read, and what it has cost so far. `is_active`: not suspended."""

    id: UUID
    level: int
    tickets: int
    is_active: bool
    pieces_left: int
    next: int
    skipped: int
    rows: int
    results: int
    seconds: float


@dataclass(frozen=True, slots=True)
class FinalizedTaskRow:
    """A finalized task with its last answer; `number` and what follows are None without one."""

    id: UUID
    rule: str
    version: str
    recall: str
    kind: str
    number: int | None
    coverage: Mapping[str, Any] | None
    answer: Sequence[Mapping[str, Any]] | None
    estimates: Sequence[Mapping[str, Any]] | None
    forecast: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class CancelledTaskRow:
    """A cancelled task, with the event that it was about."""

    rule: str
    version: str
    recall: str
    eid: UUID
    event: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChangedContextRow:
    """The names of contexts and surroundings of an event that have changed."""

    eid: UUID
    version: str
    contexts: Collection[str]
    surroundings: Collection[str]

    def to_json(self) -> dict[str, Any]:
        return {
            "eid": str(self.eid),
            "version": self.version,
            "contexts": sorted(self.contexts),
            "surroundings": sorted(self.surroundings),
        }


@dataclass(frozen=True, slots=True)
class QueueRow:
    """Interactive tasks in the queue. `longest`: the longest wait in seconds."""

    waiting: int
    with_answer: int
    longest: float


@dataclass(frozen=True, slots=True)
class FirstAnswerRow:
    """Latency from the alert to the first answers, in milliseconds; None without answers."""

    answers: int
    p50: float | None
    p99: float | None


@dataclass(frozen=True, kw_only=True)
class NewTask:
    """A task to create; `request` and `event` are stored as jsonb."""

    id: UUID
    eid: UUID
    rule: str
    version: str
    recall: str
    request: Mapping[str, Any]
    event: Mapping[str, Any]
    level: int
    tickets: int


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The result of a turn, as stored.

    `expected_next`: the cursor before the turn. `reads`: provenance of an SQL answer. `price`:
    tickets that the task loses. `rows`, `results`, `seconds` are added to those of the task.
    `live_appends`: see `TaskRow`; None: unchanged.
    """

    id: UUID
    fence: int
    expected_next: int
    next: int
    failed: int
    reads: Sequence[Any]
    partial_answer: bytes | None
    rows: int
    results: int
    price: int
    seconds: float
    revision: int
    state: str
    error: str | None
    exceeded: bool
    feedback_timeout: timedelta
    live_appends: Mapping[str, int] | None = None


class TaskGateway(Gateway):
    """Tasks of the ledger. Those that change claimed tasks name the lease of the process."""

    queries = "tasks"

    def add(self, task: NewTask) -> None:
        """Create a task; one that exists already is left as it is."""
        values = {**vars(task), "request": Jsonb(task.request), "event": Jsonb(task.event)}
        self._execute("add", **values)

    # Leases

    def acquire_lease(self) -> int:
        """A lease number, valid as long as the connection lives."""
        # A stopped process within a transaction would block its rows for all other processes.
        self._execute("limit_idle_transactions")
        return int(self._value("acquire_lease"))

    def renew_lease(self, lease: int, duration: timedelta) -> None:
        self._execute("renew_lease", lease=lease, duration=duration)

    def reclaim_abandoned(self) -> None:
        """Put the tasks of expired leases back into the queue."""
        self._execute("reclaim_abandoned")

    def claim(
        self,
        lease: int,
        duration: timedelta,
        *,
        level: int,
        limit: int,
        per_rule_limit: int,
        full_rules: Collection[str],
    ) -> list[TaskRow]:
        """Claim up to `limit` waiting tasks of a level, none of the rules in `full_rules`."""
        return self._records(
            TaskRow,
            "claim",
            lease=lease,
            duration=duration,
            level=level,
            limit=limit,
            per_rule_limit=per_rule_limit,
            full_rules=list(full_rules),
        )

    def claim_task(self, lease: int, duration: timedelta, id: UUID) -> list[TaskRow]:
        """Claim a task if it is waiting; returns no row if it is not."""
        return self._records(TaskRow, "claim_task", lease=lease, duration=duration, id=id)

    def get_claimed(self, id: UUID, fence: int) -> TaskRow | None:
        """A task that runs under a claim, of any process; None: it does not any more."""
        return self._record(TaskRow, "get_claimed", id=id, fence=fence)

    def defer(self, ids: Collection[UUID], lease: int) -> None:
        """Put claimed tasks back into the queue, for any process."""
        self._execute("defer", ids=list(ids), lease=lease)

    def release_all(self, lease: int) -> None:
        """Put all tasks of a process back into the queue."""
        self._execute("release_all", lease=lease)

    def list_claimed(self, lease: int) -> list[ClaimRow]:
        return self._records(ClaimRow, "list_claimed", lease=lease)

    # Turns

    def pin_pieces(
        self,
        id: UUID,
        fence: int,
        *,
        pieces: Sequence[tuple[int, int | None, int]] | None,
        corpus: int | None,
        model: int | None,
        skipped: int,
        started: bool,
    ) -> None:
        """Store what a task reads; its cursor is behind `skipped`.

        `started`: its first query has started, see `mark_query_started`.
        """
        self._execute(
            "pin_pieces",
            id=id,
            fence=fence,
            pieces=Jsonb(pieces),
            corpus=corpus,
            model=model,
            skipped=skipped,
            started=started,
        )

    def list_reads(self, id: UUID) -> list[Read]:
        """What each query of an SQL task has read."""
        return [Read(*read) for read in self._value("list_reads", id=id) or ()]

    def mark_query_started(self, ids: Collection[UUID], lease: int) -> None:
        """If the process is killed before the query ends, that counts as a failed attempt."""
        self._execute("mark_query_started", ids=list(ids), lease=lease)

    def count_failed_attempt(
        self, ids: Collection[UUID], lease: int, error: str, timed_out: bool
    ) -> None:
        """`timed_out`: the query was cancelled at its time limit."""
        self._execute(
            "count_failed_attempt", ids=list(ids), lease=lease, error=error, timed_out=timed_out
        )

    def put_off(self, id: UUID, fence: int, delay: timedelta) -> None:
        """Let a claimed task wait for another attempt, which any process may make after a delay."""
        self._execute("put_off", id=id, fence=fence, delay=delay)

    def add_delay(self, ids: Collection[UUID], lease: int, seconds: float) -> None:
        """Add seconds in which a query of these tasks could not work."""
        self._execute("add_delay", ids=list(ids), lease=lease, seconds=seconds)

    def advance(self, progress: Progress) -> tuple[str, int] | None:
        """Store the result of a turn.

        Returns the task's new state and tickets; None if the claim was lost or the task has ended:
        then nothing is stored.
        """
        values = {
            **vars(progress),
            "reads": Jsonb(progress.reads),
            "error": replace_nul(progress.error),
            "live_appends": progress.live_appends and Jsonb(progress.live_appends),
        }
        row = self._execute("advance", **values).fetchone()
        return None if row is None else (str(row[0]), int(row[1]))

    def add_revision(self, id: UUID, number: int, revision: NewRevisionRow) -> None:
        """Store an answer of a task under its number."""
        estimates = forecast = None
        if revision.estimates:
            estimates = Jsonb(replace_nul(revision.estimates))
        if revision.forecast is not None:
            forecast = Jsonb(replace_nul(revision.forecast))
        self._execute(
            "add_revision",
            task=id,
            number=number,
            final=revision.final,
            coverage=Jsonb(revision.coverage),
            answer=Jsonb(replace_nul(revision.answer)),
            estimates=estimates,
            comparable=revision.comparable,
            match=None if revision.match is None else Jsonb(revision.match),
            forecast=forecast,
        )

    def fail_unreadable(self, id: UUID, fence: int, error: str) -> None:
        """Fail a claimed task whose stored request cannot be parsed."""
        self._execute("fail_unreadable", id=id, fence=fence, error=replace_nul(error))

    def lock(self, ids: Collection[UUID]) -> None:
        """Lock tasks until the transaction ends. Must be its first statement."""
        self._execute("lock", ids=list(ids))

    def count_exceeded(self, rule: str, version: str, recall: str) -> int:
        """How many tasks of a recall in a row have exceeded a limit in the last hour."""
        return int(self._value("count_exceeded", rule=rule, version=version, recall=recall))

    def measured_recalls(self, rule: str) -> list[MeasuredRecall]:
        """What the last SQL recalls of a rule have cost."""
        return self._records(MeasuredRecall, "measured_recalls", rule=rule)

    # Events that were detected early

    def restart_settled(
        self, rule: str, version: str, attributes: Mapping[UUID, Mapping[str, Any]]
    ) -> None:
        """Restart the recalls of events, and evaluate their stages, with the final attributes."""
        eids = list(attributes)
        by_eid = {str(eid): replace_nul(values) for eid, values in attributes.items()}
        values = {
            "rule": rule,
            "version": version,
            "eids": eids,
            "attributes": Jsonb(by_eid),
        }
        self._execute("restart_settled", **values)
        self._execute("settle_recalled_events", **values)

    def lock_of_events(self, rule: str, version: str, eids: Sequence[UUID]) -> list[UUID]:
        """Lock the open and the answered tasks of events."""
        return self._column("lock_of_events", rule=rule, version=version, eids=eids)

    # Comparisons

    def restart_answered(self, tasks: Collection[UUID]) -> None:
        """Restart tasks that are done, unless their event has its boundary."""
        self._execute("restart_answered", ids=list(tasks))

    def restart_readers(self, changed: Sequence[ChangedContextRow]) -> None:
        """Restart the recalls that have read contexts or surroundings which have changed."""
        self._execute("restart_readers", changed=Jsonb([row.to_json() for row in changed]))

    def restart_incomplete_comparisons(self, rule: str, version: str, oldest: int) -> None:
        """Restart comparisons that missed events of a corpus; `oldest`: microseconds."""
        self._execute("restart_incomplete_comparisons", rule=rule, version=version, oldest=oldest)

    # Commands of operators

    def lock_matching(self, target: Mapping[str, str | None]) -> list[UUID]:
        """Lock the open tasks that match `eid`, `task`, `rule` and `before`, unless None."""
        return self._column("lock_matching", **target)

    def lock_without_feedback(self, *, all: bool) -> list[UUID]:
        """Lock the tasks whose feedback deadline has passed; `all`: all that wait for feedback."""
        return self._column("lock_without_feedback", all=all)

    def cancel(self, ids: Sequence[UUID]) -> list[CancelledTaskRow]:
        """End tasks and delete their answers."""
        return self._records(CancelledTaskRow, "cancel", ids=ids)

    def finalize(self, ids: Sequence[UUID], reason: str | None) -> list[FinalizedTaskRow]:
        """End tasks; returns their last answers. `reason` becomes their error, unless None."""
        return self._records(FinalizedTaskRow, "finalize", ids=ids, reason=reason)

    def accelerate(self, ids: Sequence[UUID], *, factor: int, maximum: int) -> None:
        """Multiply the tickets of tasks, up to a maximum, and make the tasks interactive."""
        self._execute("accelerate", ids=ids, factor=factor, maximum=maximum)

    def refine(self, ids: Sequence[UUID]) -> None:
        """Resume suspended tasks."""
        self._execute("refine", ids=ids)

    # Reading

    def has_unanswered(self) -> bool:
        """Whether interactive tasks without any answer are waiting."""
        return bool(self._value("has_unanswered"))

    def rule_exists(self, rule: str) -> bool:
        """Whether a rule, named with or without its group, is deployed or has recalls."""
        return self._value("rule_exists", rule=rule) is not None

    def list_newest(self, selection: TaskFilter, *, limit: int | None) -> list[TaskSummaryRow]:
        """Tasks, newest first."""
        return self._records(TaskSummaryRow, "list_newest", limit=limit, **selection.parameters())

    def count(self, selection: TaskFilter) -> int:
        """The number of tasks that `list_newest` lists without a limit."""
        return self._count("list_newest", limit=None, **selection.parameters())

    def list_remaining_work(self, ids: Sequence[UUID]) -> list[RemainingWorkRow]:
        """What the waiting and running tasks, and these, have left to read."""
        return self._records(RemainingWorkRow, "list_remaining_work", ids=ids)

    def list_pinned_chunks(self) -> set[int]:
        """The chunks that open tasks may still read: their files must be kept."""
        return set(self._column("list_pinned_chunks"))

    def count_by_state(self) -> dict[str, int]:
        return self._pairs("count_by_state")

    def count_open(self) -> int:
        """Tasks that have not ended."""
        return int(self._value("count_open"))

    def waiting(self) -> QueueRow:
        """The queue of interactive tasks."""
        row = self._record(QueueRow, "waiting")
        assert row is not None
        return row

    def first_answer_latency(self, since: datetime) -> FirstAnswerRow:
        """Latency of the first answers about alerts that were raised since a time."""
        row = self._record(FirstAnswerRow, "first_answer_latency", since=since)
        assert row is not None
        return row
