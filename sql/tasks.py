"""Tasks of the recall ledger: claims and leases, turns, and what operators see of them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from sql.gateway import Gateway
from sql.values import replace_nul


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRow:
    """A claimed or ended task. `partial_answer`: as Arrow or JSON bytes."""

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


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """The fields of a claimed task that other processes may change."""

    id: UUID
    fence: int
    level: int
    tickets: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSummaryRow:
    """A task as `moirae recalls list` shows it. `read`: pieces that are done."""

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
        skipped: int,
    ) -> None:
        """Store what a task reads, before it reads any of it; its cursor is behind `skipped`."""
        self._execute(
            "pin_pieces",
            id=id,
            fence=fence,
            pieces=Jsonb(pieces),
            corpus=corpus,
            skipped=skipped,
        )

    def mark_query_started(self, ids: Collection[UUID], lease: int) -> None:
        """If the process is killed before the query ends, that counts as a failed attempt."""
        self._execute("mark_query_started", ids=list(ids), lease=lease)

    def count_failed_attempt(self, ids: Collection[UUID], lease: int) -> None:
        self._execute("count_failed_attempt", ids=list(ids), lease=lease)

    def advance(self, progress: Progress) -> tuple[str, int] | None:
        """Store the result of a turn.

        Returns the task's new state and tickets; None if the claim was lost or the task has ended:
        then nothing is stored.
        """
        values = {
            **vars(progress),
            "reads": Jsonb(progress.reads),
            "error": replace_nul(progress.error),
        }
        row = self._execute("advance", **values).fetchone()
        return None if row is None else (str(row[0]), int(row[1]))

    def add_revision(
        self,
        id: UUID,
        number: int,
        *,
        final: bool,
        coverage: Mapping[str, Any],
        answer: Sequence[Mapping[str, Any]],
        estimates: Sequence[Mapping[str, Any]],
        comparable: float | None,
    ) -> None:
        """Store an answer of a task under its number; `estimates` may be empty."""
        self._execute(
            "add_revision",
            task=id,
            number=number,
            final=final,
            coverage=Jsonb(coverage),
            answer=Jsonb(replace_nul(answer)),
            estimates=Jsonb(replace_nul(estimates)) if estimates else None,
            comparable=comparable,
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

    # Comparisons

    def restart_comparisons(self, eids: Sequence[UUID], versions: Sequence[str]) -> None:
        """Restart the comparisons of events, each with the version of its rule."""
        self._execute("restart_comparisons", eids=eids, versions=versions)

    def restart_incomplete_comparisons(self, rule: str, version: str, oldest: int) -> None:
        """Restart comparisons that missed events of a corpus; `oldest`: microseconds."""
        self._execute("restart_incomplete_comparisons", rule=rule, version=version, oldest=oldest)

    # Conditions

    def list_undecided(self, limit: int) -> list[TaskRow]:
        """Ended tasks whose condition can be evaluated and has no verdict, oldest end first."""
        return self._records(TaskRow, "list_undecided", limit=limit)

    def set_verdict(self, rule: str, eid: UUID, verdict: str) -> None:
        """Store the verdict of a rule's condition on its alert."""
        self._execute("set_verdict", rule=rule, eid=eid, verdict=verdict)

    # Commands of operators

    def lock_matching(self, target: Mapping[str, str | None]) -> list[UUID]:
        """Lock the open tasks that match `eid`, `task`, `rule` and `before`, unless None."""
        return self._column("lock_matching", **target)

    def lock_without_feedback(self, *, all: bool) -> list[UUID]:
        """Lock the tasks whose feedback deadline has passed; `all`: all that wait for feedback."""
        return self._column("lock_without_feedback", all=all)

    def cancel(self, ids: Sequence[UUID]) -> None:
        self._execute("cancel", ids=ids)

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
        """Tasks that have not ended, and alerts that await the condition of their rule."""
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
