"""The tasks that this process works on: claimed from the ledger, recorded in it after each turn."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
import structlog
from cachetools import LRUCache
from psycopg import Connection

from archiver.ingest import Catalog
from recall.corpora import Corpora
from recall.engines import Template
from recall.ledger import Ledger, Task, TurnResult
from recall.requests import Piece, SimilarQuestion, SqlQuestion, enclosing_range, plan_pieces
from recall.scheduling import StrideScheduler, interleave, rank_pieces
from recall.similarity import SimilarState
from recall.worker.key_counts import KeyCounts
from recall.worker.query_slots import summarise_error

_LOG = structlog.get_logger()

# Active tasks of each level, and of each rule.
_MAX_TASKS_PER_LEVEL = 500
_MAX_TASKS_PER_RULE = 250
# Between two checks for a backlog of first answers, and for quarantined recalls.
_CHECK_INTERVAL = 0.5  # seconds
# Tasks of a recall in a row that exceed a limit before its tasks fail unread for an hour.
_QUARANTINE_THRESHOLD = 3
# How often a process may fail at one piece of a task before the task fails.
MAX_ATTEMPTS = 3

# Parsed queries in memory: one takes 60 kB and some ten milliseconds to create.
_MAX_TEMPLATES = 1_000

# A chunk: ID, from, to; microseconds, None: open.
_ChunkRange = tuple[int, int | None, int | None]


@dataclass
class ActiveTask:
    """A claimed task and the state of its turns."""

    task: Task
    template: Template | None
    """Its query; None for a comparison."""
    comparison: SimilarState | None = None
    """The state of a comparison that has begun."""
    revised_at: float = 0.0
    """Time of the last revision by the monotonic clock, in seconds."""
    is_busy: bool = False
    turn_end: int = 0
    """The cursor after the current turn: how many pieces are done then."""
    seconds_per_piece: float | None = None
    """Seconds that each piece of the last query took."""
    has_improved: bool = False
    """Whether the best hits have changed since the last revision."""

    @property
    def is_background(self) -> bool:
        return self.task.level > 0

    @property
    def pieces_left(self) -> int:
        """How many pieces the task has not read."""
        return len(self.task.pieces or ()) - self.task.next

    @property
    def is_answered(self) -> bool:
        """Whether it has an answer, or is a background task."""
        return self.is_background or self.task.revision > 0

    @property
    def expected_seconds(self) -> float:
        """How long the current turn is expected to take."""
        return (self.seconds_per_piece or 0.0) * (self.turn_end - self.task.next)

    def run_end(self, max_pieces: int) -> int:
        """The cursor after at most `max_pieces` pieces that are adjacent in time, at least one."""
        assert self.task.pieces is not None
        pieces = self.task.pieces[self.task.next : self.task.next + max_pieces]
        length = 1
        while length < len(pieces) and _are_adjacent(pieces[length - 1], pieces[length]):
            length += 1
        return self.task.next + min(length, len(pieces))

    def is_answer_due(self, now: float) -> bool:
        """Whether the current turn produces a revision.

        The first and the last turn do; in between, those of interactive tasks every `every`
        seconds.
        """
        task = self.task
        assert task.pieces is not None
        return (
            self.turn_end >= len(task.pieces)
            or task.revision == 0
            or (not self.is_background and now - self.revised_at >= task.question.every)
        )

    def turn_piece(self) -> Piece:
        """The pieces of the current turn as one."""
        assert self.task.pieces is not None
        pieces = self.task.pieces[self.task.next : self.turn_end]
        return pieces[0][0], *enclosing_range(pieces)


def _are_adjacent(first: Piece, second: Piece) -> bool:
    return first[1] == second[2] or first[2] == second[1]


class ActiveTasks:
    """The active tasks, by ID, and the scheduler that picks the next one."""

    def __init__(
        self,
        connection: Connection[Any],
        ledger: Ledger,
        corpora: Corpora,
        key_counts: KeyCounts,
        stride: StrideScheduler[UUID],
    ) -> None:
        self.tasks: dict[UUID, ActiveTask] = {}
        self.stride = stride
        self._connection = connection
        self._ledger = ledger
        self._corpora = corpora
        self._key_counts = key_counts
        self._templates: LRUCache[str, Template] = LRUCache(_MAX_TEMPLATES)
        # By (rule, version, recall): when it was checked, and whether it is quarantined.
        self._quarantine_checks: dict[tuple[str, str, str], tuple[float, bool]] = {}
        self._last_backlog_check = 0.0
        self._has_backlog = False

    def idle_task_ids(self) -> list[UUID]:
        """The tasks that wait for a turn."""
        return [task_id for task_id, active_task in self.tasks.items() if not active_task.is_busy]

    # Claiming

    def claim(self) -> None:
        """Claim free tasks up to the limits."""
        for level in (0, 1):
            tasks = self._claim_level(level)
            chunks: list[_ChunkRange] = []
            if any(task.pieces is None for task in tasks):
                chunks = self._unexpired_chunks()
            for task in tasks:
                try:
                    self._activate(task, chunks)
                except psycopg.Error:
                    raise
                except Exception as error:  # a fault of this task must not stop the others
                    self.fail(task, summarise_error(error))

    def _claim_level(self, level: int) -> list[Task]:
        tasks_by_rule = Counter(
            active_task.task.rule
            for active_task in self.tasks.values()
            if active_task.is_background == (level > 0)
        )
        full_rules = [rule for rule, count in tasks_by_rule.items() if count >= _MAX_TASKS_PER_RULE]
        limit = _MAX_TASKS_PER_LEVEL - tasks_by_rule.total()
        if level == 0 and time.monotonic() - self._last_backlog_check > _CHECK_INTERVAL:
            self._last_backlog_check = time.monotonic()
            at_limit = limit <= 0 or bool(full_rules)
            self._has_backlog = at_limit and self._ledger.has_unanswered()
        if limit <= 0:
            return []
        return self._ledger.claim(level, limit, _MAX_TASKS_PER_RULE, full_rules)

    def _unexpired_chunks(self) -> list[_ChunkRange]:
        """The chunks of all of history, oldest first."""
        return [
            (chunk.id, chunk.from_ts, chunk.to_ts)
            for chunk in Catalog(self._connection).chunks()
            if chunk.state != "expired"
        ]

    def _activate(self, task: Task, chunks: Sequence[_ChunkRange]) -> None:
        if task.tries >= MAX_ATTEMPTS:
            self._fail_after_attempts(task)
            return
        if self._is_quarantined(task):
            self.fail(
                task,
                f"not started: the last {_QUARANTINE_THRESHOLD} tasks of this recall"
                " needed too much memory or time",
            )
            return
        template: Template | None = None
        if isinstance(task.question, SqlQuestion):
            template = self._template_for(task.question)
        if task.pieces is None:
            self._plan(task, template, chunks)
            self._ledger.pin_pieces(task)
        self.tasks[task.id] = ActiveTask(task, template)
        self.stride.join(task.id, task.tickets, task.level)

    def _plan(self, task: Task, template: Template | None, chunks: Sequence[_ChunkRange]) -> None:
        """Decide which pieces a task reads, and in which order."""
        task.pieces = plan_pieces(chunks, task.event.ts, task.question)
        task.skipped = 0
        if isinstance(task.question, SimilarQuestion):
            index = self._corpora.load_index(task.rule, task.version, task.question)
            task.corpus = index.last_sequence
            if task.question.order in ("promising", "mixed"):
                ranked = self._corpora.rank_by_expected_score(task)
                if task.question.order == "mixed":
                    ranked = interleave(task.pieces, ranked)
                task.pieces = ranked
        if template is not None:
            bounds = self._key_counts.upper_bounds(template, task.event, task.pieces)
            task.pieces, task.skipped = rank_pieces(task.pieces, bounds, task.question.order)

    def _is_quarantined(self, task: Task) -> bool:
        """Whether the latest tasks of a recall have all exceeded a limit; cached for a moment."""
        recall = (task.rule, task.version, task.recall)
        now = time.monotonic()
        for key, (checked_at, _) in list(self._quarantine_checks.items()):
            if now - checked_at > _CHECK_INTERVAL:
                del self._quarantine_checks[key]
        if recall not in self._quarantine_checks:
            quarantined = self._ledger.count_exceeded(*recall) >= _QUARANTINE_THRESHOLD
            self._quarantine_checks[recall] = now, quarantined
        return self._quarantine_checks[recall][1]

    def _template_for(self, question: SqlQuestion) -> Template:
        key = repr(question)
        template = self._templates.get(key)
        if template is None:
            template = Template(question)
            self._templates[key] = template
        return template

    def sync_with_ledger(self) -> None:
        """Apply the changes that commands, other processes and late events made to the tasks."""
        claims = self._ledger.claimed_tasks()
        for task_id, active_task in list(self.tasks.items()):
            task, claim = active_task.task, claims.get(task_id)
            if claim is None or claim.fence != task.fence:
                self.drop(task_id)
            elif (claim.level, claim.tickets) != (task.level, task.tickets):
                task.level, task.tickets = claim.level, claim.tickets
                self.stride.join(task_id, claim.tickets, claim.level)

    def is_current(self, active_task: ActiveTask) -> bool:
        """Whether a task is still active, under the same claim."""
        return self.tasks.get(active_task.task.id) is active_task

    def requeue(self, active_tasks: Iterable[ActiveTask]) -> None:
        """Let tasks wait for another turn; those with too many failed attempts fail."""
        for active_task in active_tasks:
            active_task.is_busy = False
            if self.is_current(active_task) and active_task.task.tries >= MAX_ATTEMPTS:
                self._fail_after_attempts(active_task.task)

    # Recording

    def record(self, active_task: ActiveTask, result: TurnResult) -> bool:
        """Store the result of a turn; returns whether the task has ended with it."""
        task = active_task.task
        if not self.is_current(active_task):
            return False
        tickets, pieces_read = task.tickets, result.next - task.next
        try:
            state = self._ledger.advance(result)
        except (
            TypeError,
            ValueError,
            psycopg.DataError,
            psycopg.errors.ProgramLimitExceeded,
        ) as error:
            self.fail(task, f"cannot store the answer: {summarise_error(error)}")
            return False
        if pieces_read:
            active_task.seconds_per_piece = result.query_seconds / pieces_read
        if result.revision is not None:
            active_task.revised_at = time.monotonic()
            active_task.has_improved = False
        if state != "running":
            self.drop(task.id)
        elif self._has_backlog and task.revision > 0 and not active_task.is_background:
            # First answers of waiting tasks come before further revisions of this one.
            self._ledger.defer([task.id])
            self.drop(task.id)
        elif task.tickets != tickets:
            self.stride.join(task.id, task.tickets, task.level)
        return state is not None and state not in ("running", "suspended")

    def fail(self, task: Task, reason: str, exceeded: bool = False) -> None:
        """End a task as failed; `exceeded`: because it needs too much memory or time."""
        _LOG.error(
            "recall failed",
            action="recall_failed",
            rule=task.rule,
            recall=task.recall,
            error=reason,
        )
        result = TurnResult(
            task=task,
            next=task.next,
            failed=task.failed,
            partial_answer=None,
            rows=0,
            results=0,
            seconds=0.0,
            state="failed",
            error=reason,
            exceeded=exceeded,
        )
        self._ledger.advance(result)
        self.drop(task.id)

    def _fail_after_attempts(self, task: Task) -> None:
        reason = f"failed {task.tries} times at one piece: needs too much memory or time"
        self.fail(task, reason, exceeded=True)

    def drop(self, task_id: UUID) -> None:
        """Remove a task from the active ones."""
        self.tasks.pop(task_id, None)
        self.stride.leave(task_id)
