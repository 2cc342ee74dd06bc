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

from archiver.catalog import Catalog
from recall.corpora import Corpora
from recall.engines.template import Template
from recall.keys import Keys
from recall.lately import Lately
from recall.ledger import Ledger, Step, Task
from recall.manager.workers import words
from recall.request import Piece, SimilarQuestion, SqlQuestion, pieces, whole
from recall.schedule.order import by_turns, ranked
from recall.schedule.stride import Stride
from recall.similarity.answer import SimilarState

_LOG = structlog.get_logger()

# Tasks on the desk, of each level; and of each rule.
_ROOM, _EACH = 500, 250
# Seconds between two looks whether others wait for a first answer.
_LOOK = 0.5
# Tasks of a recall that have needed too much, one after the other, before it is not asked again for an hour.
_MOST = 3
# How often a process may fall over the same piece of a task before the task is given up.
TRIES = 3
_TOO_MUCH = "failed {} times over one piece of history: needs too much memory or time"


@dataclass
class Work:
    """A task on the desk."""

    task: Task
    template: Template | None
    state: SimilarState | None = None
    """Of a comparison, once it has begun."""
    revised_at: float = 0.0
    busy: bool = False
    upto: int = 0
    """How many pieces are read when the query at hand is done."""
    each: float | None = None
    """Seconds that each piece of the last query took."""
    better: bool = False
    """Whether more is known than the last revision says."""

    @property
    def background(self) -> bool:
        return self.task.level > 0

    @property
    def left(self) -> int:
        """Pieces that the task has not read."""
        return len(self.task.pieces or ()) - self.task.next

    @property
    def answered(self) -> bool:
        """Whether nobody waits for its first answer."""
        return self.background or self.task.revision > 0

    @property
    def seconds(self) -> float:
        """What the query at hand is expected to take."""
        return (self.each or 0.0) * (self.upto - self.task.next)

    def reach(self, count: int) -> int:
        """How far the cursor gets with at most so many pieces that follow one another in time."""
        assert self.task.pieces is not None
        left = self.task.pieces[self.task.next : self.task.next + count]
        together = 1
        while together < len(left) and _touch(left[together - 1], left[together]):
            together += 1
        return self.task.next + min(together, len(left))

    def due(self, now: float) -> bool:
        """Whether an answer is due after the query at hand: the first, then where somebody may wait one every `every`,
        and the last."""
        task = self.task
        assert task.pieces is not None
        return (
            self.upto >= len(task.pieces)
            or task.revision == 0
            or (not self.background and now - self.revised_at >= task.question.every)
        )

    def share(self) -> Piece:
        """The pieces that the query at hand reads, as one."""
        assert self.task.pieces is not None
        taken = self.task.pieces[self.task.next : self.upto]
        return taken[0][0], *whole(taken)


def _touch(a: Piece, b: Piece) -> bool:
    return a[1] == b[2] or a[2] == b[1]


class Desk:
    """Tasks at hand and whose turn it is."""

    def __init__(
        self, connection: Connection[Any], ledger: Ledger, corpora: Corpora, keys: Keys, stride: Stride[UUID]
    ) -> None:
        self.works: dict[UUID, Work] = {}
        self.stride = stride
        self._connection = connection
        self._ledger = ledger
        self._corpora = corpora
        self._keys = keys
        self._templates: Lately[str, Template] = Lately()
        self._exceeded: dict[tuple[str, str, str], tuple[float, bool]] = {}
        self._looked = 0.0
        self._crowded = False

    def able(self) -> list[UUID]:
        """Tasks that can use a turn."""
        return [number for number, work in self.works.items() if not work.busy]

    # From the ledger

    def claim(self) -> None:
        """Take tasks that nobody works on, as many as there is room for."""
        for level in (0, 1):
            held = Counter(work.task.rule for work in self.works.values() if work.background == (level > 0))
            full = [rule for rule, count in held.items() if count >= _EACH]
            room = _ROOM - held.total()
            if level == 0 and time.monotonic() - self._looked > _LOOK:
                self._looked = time.monotonic()
                self._crowded = self._ledger.unanswered() if room <= 0 or full else False
            claimed = self._ledger.claim(level, room, _EACH, full) if room > 0 else []
            chunks = self._chunks() if any(task.pieces is None for task in claimed) else []
            for task in claimed:
                try:
                    self._take(task, chunks)
                except psycopg.Error:
                    raise
                except Exception as error:  # what is odd about one task is its own
                    self.fail(task, words(error))

    def _chunks(self) -> list[tuple[int, int | None, int | None]]:
        """All of history, oldest first."""
        return [(c.id, c.from_ts, c.to_ts) for c in Catalog(self._connection).chunks() if c.state != "expired"]

    def _take(self, task: Task, chunks: Sequence[tuple[int, int | None, int | None]]) -> None:
        if task.tries >= TRIES:
            self.fail(task, _TOO_MUCH.format(task.tries), exceeded=True)
            return
        if self._quarantined(task):
            self.fail(task, f"not asked: {_MOST} recalls of this name have needed too much memory or time of late")
            return
        template = self._template(task.question)
        if task.pieces is None:
            task.pieces, task.skipped = pieces(chunks, task.asked.ts, task.question), 0
            if isinstance(task.question, SimilarQuestion):
                index = self._corpora.index(task.rule, task.version, task.question)
                task.corpus = index.number
                if task.question.order in ("promising", "mixed"):
                    hopeful = self._corpora.promising(task)
                    task.pieces = hopeful if task.question.order == "promising" else by_turns(task.pieces, hopeful)
            if template is not None:
                promises = self._keys.promises(template, task.asked, task.pieces)
                task.pieces, task.skipped = ranked(task.pieces, promises, task.question.order)
            self._ledger.pin(task)
        self.works[task.id] = Work(task, template)
        self.stride.join(task.id, task.tickets, task.level)

    def _quarantined(self, task: Task) -> bool:
        recall = (task.rule, task.version, task.recall)
        known = self._exceeded.get(recall)
        now = time.monotonic()
        if known is None or now - known[0] > _LOOK:
            known = now, self._ledger.exceeded(*recall) >= _MOST
            self._exceeded = {one: old for one, old in self._exceeded.items() if now - old[0] <= _LOOK}
            self._exceeded[recall] = known
        return known[1]

    def _template(self, question: Any) -> Template | None:
        if not isinstance(question, SqlQuestion):
            return None
        return self._templates.of(repr(question), lambda: Template(question))

    def follow(self) -> None:
        """What commands, other processes and late events have made of the tasks in the ledger holds here too."""
        standing = self._ledger.at_work()
        for number, work in list(self.works.items()):
            now, task = standing.get(number), work.task
            if now is None or now.fence != task.fence:
                self.drop(number)
            elif (now.level, now.tickets) != (task.level, task.tickets):
                task.level, task.tickets = now.level, now.tickets
                self.stride.join(number, now.tickets, now.level)

    def holds(self, work: Work) -> bool:
        """Whether this is still what is done for its task."""
        return self.works.get(work.task.id) is work

    def put_back(self, works: Iterable[Work]) -> None:
        """A query was given up: those of its tasks that go on wait for another."""
        for work in works:
            work.busy = False
            if self.holds(work) and work.task.tries >= TRIES:
                self.fail(work.task, _TOO_MUCH.format(work.task.tries), exceeded=True)

    # Back into the ledger

    def take_in(self, work: Work, step: Step) -> bool:
        """Store what a history query has brought. True: that was the task's end."""
        task = work.task
        if not self.holds(work):
            return False
        before, pieces = task.tickets, step.next - task.next
        try:
            state = self._ledger.advance(step)
        except (TypeError, ValueError, psycopg.DataError, psycopg.errors.ProgramLimitExceeded) as error:
            self.fail(task, f"the answer cannot be stored: {words(error)}")
            return False
        work.each = step.took / pieces if pieces else work.each
        if step.revision is not None:
            work.revised_at, work.better = time.monotonic(), False
        if state != "running":
            self.drop(task.id)
        elif self._crowded and task.revision > 0 and not work.background:
            # In a storm everybody gets a first answer before anybody gets another.
            self._ledger.defer([task.id])
            self.drop(task.id)
        elif task.tickets != before:
            self.stride.join(task.id, task.tickets, task.level)
        return state is not None and state not in ("running", "suspended")

    def fail(self, task: Task, reason: str, exceeded: bool = False) -> None:
        """End a task with its reason; `exceeded`: it needs too much memory or time."""
        _LOG.error("recall failed", action="recall_failed", rule=task.rule, recall=task.recall, error=reason)
        self._ledger.advance(
            Step(task, task.next, task.failed, None, 0, 0, 0.0, "failed", error=reason, exceeded=exceeded)
        )
        self.drop(task.id)

    def drop(self, number: UUID) -> None:
        """A task is no longer at hand."""
        self.works.pop(number, None)
        self.stride.leave(number)
