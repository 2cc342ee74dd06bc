"""The tasks that this process works on: taken from the ledger, put back into it piece by piece."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import psycopg
import structlog
from psycopg import Connection

from archiver.ingest import Catalog
from recall.corpora import Corpora
from recall.engines import LruCache, Template
from recall.ledger import Ledger, Task, TurnResult
from recall.requests import Piece, SimilarQuestion, SqlQuestion, enclosing_range, plan_pieces
from recall.scheduling import StrideScheduler, interleave, rank_pieces
from recall.similarity import SimilarState
from recall.worker.key_counts import KeyCounts
from recall.worker.query_slots import summarise_error

_LOG = structlog.get_logger()

# Tasks on the desk, of each level; and of each rule.
_MAX_TASKS_PER_LEVEL, _MAX_TASKS_PER_RULE = 500, 250
# Seconds between two looks whether others wait for a first answer.
_CHECK_INTERVAL = 0.5
# Tasks of a recall that have needed too much, one after the other, before it is not asked again for an hour.
_QUARANTINE_THRESHOLD = 3
# How often a process may fall over the same piece of a task before the task is given up.
MAX_ATTEMPTS = 3
_TOO_MANY_ATTEMPTS = "failed {} times over one piece of history: needs too much memory or time"


@dataclass
class ActiveTask:
    """A task on the desk."""

    task: Task
    template: Template | None
    comparison: SimilarState | None = None
    """Of a comparison, once it has begun."""
    revised_at: float = 0.0
    is_busy: bool = False
    turn_end: int = 0
    """How many pieces are read when the query at hand is done."""
    seconds_per_piece: float | None = None
    """Seconds that each piece of the last query took."""
    has_improved: bool = False
    """Whether more is known than the last revision says."""

    @property
    def is_background(self) -> bool:
        return self.task.level > 0

    @property
    def pieces_left(self) -> int:
        """Pieces that the task has not read."""
        return len(self.task.pieces or ()) - self.task.next

    @property
    def is_answered(self) -> bool:
        """Whether nobody waits for its first answer."""
        return self.is_background or self.task.revision > 0

    @property
    def expected_seconds(self) -> float:
        """What the query at hand is expected to take."""
        return (self.seconds_per_piece or 0.0) * (self.turn_end - self.task.next)

    def cursor_after(self, count: int) -> int:
        """How far the cursor gets with at most so many pieces that follow one another in time."""
        assert self.task.pieces is not None
        left = self.task.pieces[self.task.next : self.task.next + count]
        together = 1
        while together < len(left) and _are_adjacent(left[together - 1], left[together]):
            together += 1
        return self.task.next + min(together, len(left))

    def is_answer_due(self, now: float) -> bool:
        """Whether an answer is due after the query at hand: the first, then where somebody may wait one every `every`,
        and the last."""
        task = self.task
        assert task.pieces is not None
        return (
            self.turn_end >= len(task.pieces)
            or task.revision == 0
            or (not self.is_background and now - self.revised_at >= task.question.every)
        )

    def turn_piece(self) -> Piece:
        """The pieces that the query at hand reads, as one."""
        assert self.task.pieces is not None
        taken = self.task.pieces[self.task.next : self.turn_end]
        return taken[0][0], *enclosing_range(taken)


def _are_adjacent(a: Piece, b: Piece) -> bool:
    return a[1] == b[2] or a[2] == b[1]


class ActiveTasks:
    """Tasks at hand and whose turn it is."""

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
        self._templates: LruCache[str, Template] = LruCache()
        self._quarantine_checks: dict[tuple[str, str, str], tuple[float, bool]] = {}
        self._last_backlog_check = 0.0
        self._has_backlog = False

    def idle_task_ids(self) -> list[UUID]:
        """Tasks that can use a turn."""
        return [number for number, work in self.tasks.items() if not work.is_busy]

    # From the ledger

    def claim(self) -> None:
        """Take tasks that nobody works on, as many as there is room for."""
        for level in (0, 1):
            held = Counter(
                work.task.rule for work in self.tasks.values() if work.is_background == (level > 0)
            )
            full = [rule for rule, count in held.items() if count >= _MAX_TASKS_PER_RULE]
            room = _MAX_TASKS_PER_LEVEL - held.total()
            if level == 0 and time.monotonic() - self._last_backlog_check > _CHECK_INTERVAL:
                self._last_backlog_check = time.monotonic()
                self._has_backlog = self._ledger.has_unanswered() if room <= 0 or full else False
            claimed = self._ledger.claim(level, room, _MAX_TASKS_PER_RULE, full) if room > 0 else []
            chunks = (
                self._unexpired_chunks() if any(task.pieces is None for task in claimed) else []
            )
            for task in claimed:
                try:
                    self._activate(task, chunks)
                except psycopg.Error:
                    raise
                except Exception as error:  # what is odd about one task is its own
                    self.fail(task, summarise_error(error))

    def _unexpired_chunks(self) -> list[tuple[int, int | None, int | None]]:
        """All of history, oldest first."""
        return [
            (c.id, c.from_ts, c.to_ts)
            for c in Catalog(self._connection).chunks()
            if c.state != "expired"
        ]

    def _activate(self, task: Task, chunks: Sequence[tuple[int, int | None, int | None]]) -> None:
        if task.tries >= MAX_ATTEMPTS:
            self.fail(task, _TOO_MANY_ATTEMPTS.format(task.tries), exceeded=True)
            return
        if self._is_quarantined(task):
            self.fail(
                task,
                f"not asked: {_QUARANTINE_THRESHOLD} recalls of this name have needed too much memory or time of late",
            )
            return
        template = self._template_for(task.question)
        if task.pieces is None:
            task.pieces, task.skipped = plan_pieces(chunks, task.event.ts, task.question), 0
            if isinstance(task.question, SimilarQuestion):
                index = self._corpora.load_index(task.rule, task.version, task.question)
                task.corpus = index.last_sequence
                if task.question.order in ("promising", "mixed"):
                    hopeful = self._corpora.rank_by_upper_bound(task)
                    task.pieces = (
                        hopeful
                        if task.question.order == "promising"
                        else interleave(task.pieces, hopeful)
                    )
            if template is not None:
                promises = self._key_counts.upper_bounds(template, task.event, task.pieces)
                task.pieces, task.skipped = rank_pieces(task.pieces, promises, task.question.order)
            self._ledger.pin_pieces(task)
        self.tasks[task.id] = ActiveTask(task, template)
        self.stride.join(task.id, task.tickets, task.level)

    def _is_quarantined(self, task: Task) -> bool:
        recall = (task.rule, task.version, task.recall)
        known = self._quarantine_checks.get(recall)
        now = time.monotonic()
        if known is None or now - known[0] > _CHECK_INTERVAL:
            known = now, self._ledger.count_exceeded(*recall) >= _QUARANTINE_THRESHOLD
            self._quarantine_checks = {
                one: old
                for one, old in self._quarantine_checks.items()
                if now - old[0] <= _CHECK_INTERVAL
            }
            self._quarantine_checks[recall] = known
        return known[1]

    def _template_for(self, question: Any) -> Template | None:
        if not isinstance(question, SqlQuestion):
            return None
        return self._templates.get_or_create(repr(question), lambda: Template(question))

    def sync_with_ledger(self) -> None:
        """What commands, other processes and late events have made of the tasks in the ledger holds here too."""
        standing = self._ledger.claimed_tasks()
        for number, work in list(self.tasks.items()):
            now, task = standing.get(number), work.task
            if now is None or now.fence != task.fence:
                self.drop(number)
            elif (now.level, now.tickets) != (task.level, task.tickets):
                task.level, task.tickets = now.level, now.tickets
                self.stride.join(number, now.tickets, now.level)

    def is_current(self, active_task: ActiveTask) -> bool:
        """Whether this is still what is done for its task."""
        return self.tasks.get(active_task.task.id) is active_task

    def requeue(self, active_tasks: Iterable[ActiveTask]) -> None:
        """A query was given up: those of its tasks that go on wait for another."""
        for work in active_tasks:
            work.is_busy = False
            if self.is_current(work) and work.task.tries >= MAX_ATTEMPTS:
                self.fail(work.task, _TOO_MANY_ATTEMPTS.format(work.task.tries), exceeded=True)

    # Back into the ledger

    def record(self, active_task: ActiveTask, result: TurnResult) -> bool:
        """Store what a history query has brought. True: that was the task's end."""
        task = active_task.task
        if not self.is_current(active_task):
            return False
        before, pieces = task.tickets, result.next - task.next
        try:
            state = self._ledger.advance(result)
        except (
            TypeError,
            ValueError,
            psycopg.DataError,
            psycopg.errors.ProgramLimitExceeded,
        ) as error:
            self.fail(task, f"the answer cannot be stored: {summarise_error(error)}")
            return False
        active_task.seconds_per_piece = (
            result.query_seconds / pieces if pieces else active_task.seconds_per_piece
        )
        if result.revision is not None:
            active_task.revised_at, active_task.has_improved = time.monotonic(), False
        if state != "running":
            self.drop(task.id)
        elif self._has_backlog and task.revision > 0 and not active_task.is_background:
            # In a storm everybody gets a first answer before anybody gets another.
            self._ledger.defer([task.id])
            self.drop(task.id)
        elif task.tickets != before:
            self.stride.join(task.id, task.tickets, task.level)
        return state is not None and state not in ("running", "suspended")

    def fail(self, task: Task, reason: str, exceeded: bool = False) -> None:
        """End a task with its reason; `exceeded`: it needs too much memory or time."""
        _LOG.error(
            "recall failed",
            action="recall_failed",
            rule=task.rule,
            recall=task.recall,
            error=reason,
        )
        self._ledger.advance(
            TurnResult(
                task,
                task.next,
                task.failed,
                None,
                0,
                0,
                0.0,
                "failed",
                error=reason,
                exceeded=exceeded,
            )
        )
        self.drop(task.id)

    def drop(self, task_id: UUID) -> None:
        """A task is no longer at hand."""
        self.tasks.pop(task_id, None)
        self.stride.leave(task_id)
