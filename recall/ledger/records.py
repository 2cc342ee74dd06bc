"""Values of the recall ledger: tasks, the results of their turns, revisions. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from recall.requests import AnyQuestion, Coverage, Piece, RecallEvent, parse_question
from recall.scheduling import TaskStatistics, TurnStatistics
from sql.recalls import RemainingWorkRow, TaskRow


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """What a task is about. It does not change while a process has the task.

    `fence`: the number of the claim.
    """

    id: UUID
    rule: str
    version: str
    recall: str
    question: AnyQuestion
    event: RecallEvent
    fence: int
    created_at: datetime


@dataclass(frozen=True, kw_only=True)
class TaskProgress:
    """How far a task is, and how it is scheduled.

    `level` 0: interactive, 1: background. `pieces`: what it reads, in order; None until pinned.
    `corpus`: the sequence number up to which events count. `model`: of the measure `learned`;
    None: none. `next`: how many pieces are done,
    `failed` of them without result, `skipped` of them without being read. `partial_answer`: as
    stored. `tries`: how often a query for the next piece failed, `timeouts` of them by the time
    limit; `put_offs`: how often the task had to wait after that; `error`: of the last failure.
    `live_appends`: of a question that
    follows, up to which append of each stream its answer includes live rows; None: none yet.
    """

    level: int
    tickets: int
    pieces: Sequence[Piece] | None
    corpus: int | None
    model: int | None
    next: int
    failed: int
    skipped: int
    partial_answer: bytes | None
    revision: int
    tries: int
    statistics: TaskStatistics
    timeouts: int = 0
    put_offs: int = 0
    error: str | None = None
    live_appends: Mapping[str, int] | None = None

    @property
    def has_read_all(self) -> bool:
        """Whether all pieces are read, and there is an answer."""
        return self.pieces is not None and self.next >= len(self.pieces) and self.revision > 0


@dataclass(frozen=True)
class Task:
    """A task that this process has claimed, as it is at one time."""

    spec: TaskSpec
    progress: TaskProgress

    @property
    def id(self) -> UUID:
        return self.spec.id

    def at_start(self) -> "Task":
        """The task behind the pieces that it skips."""
        return replace(self, progress=replace(self.progress, next=self.progress.skipped))


@dataclass(frozen=True)
class Revision:
    """An answer to store as the next revision of a task.

    `estimates`: for each row, by output column, the estimate for the full range of the question.
    `comparable`, `match`: of a final similarity answer, see `recall.confidence`.
    `forecast`: of an answer by `learned`, see `recall.learning.ResolutionForecast`; `label_shares`:
    what is compared with the resolution, see `recall.learning.resolution_forecast.ForecastShares`.
    """

    coverage: Coverage
    answer: Sequence[Mapping[str, Any]]
    estimates: Sequence[Mapping[str, Any]] = ()
    comparable: float | None = None
    match: Mapping[str, Any] | None = None
    forecast: Mapping[str, Any] | None = None
    label_shares: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class TurnResult:
    """The outcome of one turn of a task: its new cursor and partial answer, and a revision if due.

    `state`: the new state of the task. `exceeded`: whether it was abandoned because it needs too
    much memory or time. `append_counts`: appends of each stream that existed when SQL was run;
    None: its pieces failed. `has_improved`: whether the best hits of a comparison have changed
    since its last revision. `live_appends`: see `TaskProgress`; None: unchanged.
    """

    next: int
    failed: int
    partial_answer: bytes | None
    statistics: TurnStatistics
    state: str
    revision: Revision | None = None
    error: str | None = None
    exceeded: bool = False
    append_counts: Mapping[str, int] | None = None
    has_improved: bool = False
    live_appends: Mapping[str, int] | None = None

    @classmethod
    def failure(
        cls, progress: TaskProgress, error: str, *, exceeded: bool = False, seconds: float = 0.0
    ) -> "TurnResult":
        """A turn that ends its task without reading anything."""
        return cls(
            next=progress.next,
            failed=progress.failed,
            partial_answer=None,
            statistics=TurnStatistics(pieces=0, rows=0, results=0, seconds=seconds),
            state="failed",
            error=error,
            exceeded=exceeded,
        )


@dataclass(frozen=True)
class ClaimState:
    """The fields of a claimed task that other processes may change."""

    fence: int
    level: int
    tickets: int


@dataclass(frozen=True)
class SchedulingPolicy:
    """Settings for all tasks.

    `tickets_per_result`: tickets that a task loses for each result. `feedback_timeout`: how long a
    suspended task waits for feedback.
    """

    tickets_per_result: int = 1
    feedback_timeout: timedelta = timedelta(minutes=10)


def parse_task(row: TaskRow) -> Task:
    """Parse a row of the ledger. Raises what is wrong with a row of an incompatible version."""
    pieces: list[Piece] | None = None
    if row.pieces is not None:
        pieces = [Piece.from_json(stored) for stored in row.pieces]
    spec = TaskSpec(
        id=row.id,
        rule=row.rule,
        version=row.version,
        recall=row.recall,
        question=parse_question(row.request),
        event=RecallEvent.from_json(row.eid, row.event),
        fence=row.fence,
        created_at=row.created_at,
    )
    progress = TaskProgress(
        level=row.level,
        tickets=row.tickets,
        pieces=pieces,
        corpus=row.corpus,
        model=row.model,
        next=row.next,
        failed=row.failed,
        skipped=row.skipped,
        partial_answer=None if row.partial_answer is None else bytes(row.partial_answer),
        revision=row.revision,
        tries=row.tries,
        timeouts=row.timeouts,
        put_offs=row.put_offs,
        error=row.error,
        statistics=parse_statistics(row),
        live_appends=row.live_appends,
    )
    return Task(spec, progress)


def parse_statistics(row: TaskRow | RemainingWorkRow) -> TaskStatistics:
    """The statistics of a task as stored. How long its last query took is not stored."""
    return TaskStatistics(
        pieces=row.next - row.skipped, rows=row.rows, results=row.results, seconds=row.seconds
    )
