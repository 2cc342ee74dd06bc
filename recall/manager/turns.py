"""Turns: which tasks read which piece of history next, together where they ask the same of the same chunk."""

import math
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any
from uuid import UUID

import psycopg
from psycopg import Connection

import sql
from recall.engines.template import Own
from recall.ledger import Ledger, Step, Task, twice
from recall.manager.comparing import Comparisons
from recall.manager.desk import Desk, Work
from recall.manager.history import Reading, read
from recall.manager.preparing import Preparing
from recall.manager.workers import EngineLost, GivenUp, Job, Workers, words
from recall.query.split import MERGED
from recall.request import SimilarQuestion
from recall.schedule.stride import LONGEST, run

_CONTEXTS = sql.load("contexts")

# Most tasks in one query; and of those that are compared with a piece of the corpus in one pass.
_TOGETHER = 200
# Pieces that one query reads in the background.
_RUN = 32


class Turns:
    """History queries of the tasks on a desk, at most as many at once as there are engines."""

    def __init__(
        self,
        connection: Connection[Any],
        ledger: Ledger,
        desk: Desk,
        comparisons: Comparisons,
        preparing: Preparing,
        workers: Workers,
    ) -> None:
        self.jobs: list[Job[list[Step]]] = []
        self._connection = connection
        self._ledger = ledger
        self._desk = desk
        self._comparisons = comparisons
        self._preparing = preparing
        self._workers = workers
        self._works: dict[int, list[Work]] = {}

    # Giving

    def give(self) -> list[Task] | None:
        """Give the next task its turn; returns what ended with it, None: there is no task, or no room."""
        able = [number for number in self._desk.able() if number not in self._preparing.waiting]
        if not self._workers.free:
            able = [number for number in able if self._compares(number)]
        ended = self._give_one(able)
        if ended is None:
            # What waits for an engine, or must be alone with them, does not hold up what needs none.
            free = [number for number in able if self._compares(number)]
            ended = self._give_one(free) if 0 < len(free) < len(able) else None
        return ended

    def _compares(self, number: UUID) -> bool:
        return isinstance(self._desk.works[number].task.question, SimilarQuestion)

    def _give_one(self, able: list[UUID]) -> list[Task] | None:
        number = self._desk.stride.next(self._suspects(able) or able)
        if number is None:
            return None
        work = self._desk.works[number]
        if work.background:
            # Nobody waits: the newest piece first, where others join in on the way down.
            first = self._suspects(able) or able
            others = [w for w in map(self._desk.works.__getitem__, first) if w.background]
            work = max(others, key=lambda w: (_high(w.task), w.task.created_at))
        # Tasks that are read together anyway are one.
        alone = not self.jobs and all(_alike(work, self._desk.works[other]) for other in able)
        self._end_of_turn(work, alone)
        try:
            return self._turn_of(work, able)
        except (psycopg.Error, EngineLost):
            raise
        except Exception as error:  # what is odd about one task is its own
            self._desk.fail(work.task, words(error))
            return []

    def _suspects(self, able: Sequence[UUID]) -> list[UUID]:
        """Of the tasks that wait at the level whose turn it is, those over which the process fell most often: they come
        first. Whom it was killed over by chance has gone on when it is killed again."""
        works = [self._desk.works[number] for number in able]
        tried = [work for work in works if work.task.tries and work.background == all(w.background for w in works)]
        most = max((work.task.tries for work in tried), default=0)
        return [work.task.id for work in tried if work.task.tries == most]

    def _turn_of(self, work: Work, able: Iterable[UUID]) -> list[Task] | None:
        workers = self._workers
        if work.template is None:
            if self._preparing.first(work):
                return []
            works = self._together(work, able)
            self._desk.stride.served({one.task.id: max(one.upto - one.task.next, 1) for one in works})
            return self._compare(works)
        if not workers.free or (work.background and not workers.spare):
            return None
        suspects = [task for job in self.jobs for task in job.tasks if task.tries]
        if suspects or (work.task.tries and self.jobs):
            return None  # over what the process may fall, it works alone
        readings = self._at_once(work, list(able))
        works = [one for reading in readings for one in reading.works]
        for one in works:
            one.busy = True
        tasks = [one.task for one in works]
        self._desk.stride.served({one.task.id: max(one.upto - one.task.next, 1) for one in works})
        job = workers.start(tasks, "history query", lambda asking: read(asking, readings))
        self.jobs.append(job)
        self._works[id(job)] = works
        return []

    def _at_once(self, work: Work, able: Sequence[UUID]) -> list[Reading]:
        """The tasks that one history query serves, by question: those of the task's question; and of others about the
        same stream those that wait for the same chunk, if their turn comes before this one's next.

        Nobody joins while anybody waits for a first answer, which would take longer. Nor do more join than leave an
        even part to each engine that is free.
        """
        works = self._together(work, able)
        found = [Reading(works, self._own(works))]
        waited_for = any(not one.answered for one in self._desk.works.values())
        if work.task.tries or waited_for or not all(one.left for one in works):
            return found
        others: dict[int, Work] = {}
        for other in map(self._desk.works.__getitem__, able):
            if self._joins(work, other):
                others.setdefault(id(other.template), other)
        part = math.ceil((1 + len(others)) / self._workers.free)
        seconds = work.seconds
        for other in list(others.values())[: part - 1]:
            other.upto = other.reach(work.upto - work.task.next)
            seconds += other.seconds
            if seconds > LONGEST:
                break
            found.append(Reading(self._together(other, able), {}))
        return found

    def _joins(self, work: Work, other: Work) -> bool:
        """Whether a task of another question can be read for together with one."""
        if other.template is None or _alike(work, other) or other.task.tries or not other.left:
            return False
        pieces = work.upto - work.task.next
        return (
            _chunks(work, pieces) == _chunks(other, pieces)
            and other.background == work.background
            and self._desk.stride.comes_before(other.task.id, work.task.id, pieces)
            and self._about_one_stream(work, other)
        )

    def _about_one_stream(self, work: Work, other: Work) -> bool:
        """Whether both are answered in this process, from the rows of one stream and nothing else."""
        assert work.template is not None and other.template is not None
        try:
            stream = self._workers.stream(work.template)
            return stream is not None and self._workers.stream(other.template) == stream
        except Exception:  # what is odd about one of them is told when it is asked by itself
            return False

    def _together(self, work: Work, able: Iterable[UUID]) -> list[Work]:
        """The task and others of the same question: those that wait for the same chunk; in the background, where
        several chunks are read at once, all that come by there."""
        if work.task.tries:
            return [work]
        chunks = set(_chunks(work, work.upto - work.task.next))
        same: list[Work] = []
        events = {work.task.asked.eid}  # rows of a query are told apart by event
        for other in map(self._desk.works.__getitem__, able):
            if other is not work and _alike(work, other) and not other.task.tries and other.left:
                assert other.task.pieces is not None
                rest = other.task.pieces[other.task.next :]
                same_level = other.background == work.background
                if rest[0][0] in chunks and same_level and other.task.asked.eid not in events:
                    events.add(other.task.asked.eid)
                    other.upto = other.reach(sum(1 for _ in takewhile(lambda piece: piece[0] in chunks, rest)))
                    same.append(other)
        return [work, *same[: _TOGETHER - 1]]

    def _compare(self, works: list[Work]) -> list[Task]:
        """What needs no engine: similarity over the index in memory, for all that wait for the same chunk. A comparison
        that fails is tried for each task by itself."""
        try:
            steps = self._comparisons.compare(works)
        except psycopg.Error:
            raise
        except Exception as error:
            for one in works:
                one.state = None  # some are compared, some not: they go on from what was kept
            if len(works) > 1:
                return [ended for one in works for ended in self._compare([one])]
            self._desk.fail(works[0].task, words(error))
            return []
        return self._take_in(works, steps)

    def _own(self, works: list[Work]) -> Own:
        """The rows of the rule's own tables that a question names, for some events."""
        template = works[0].template
        assert template is not None
        if not template.names_own:
            return {}
        tables: dict[str, dict[str, Any]] = {n: {} for n in template.partial.used.own | template.merge.used.own}
        tables.pop(MERGED, None)
        if tables:
            eids = [work.task.asked.eid for work in works]
            found = self._connection.execute(_CONTEXTS["context"], {"eids": eids}).fetchall()
            for _, _, eid, _, contexts, surroundings, _ in found:
                for name in tables:
                    tables[name][str(eid)] = contexts.get(name) or surroundings.get(name) or []
        return tables

    # Taking in

    def give_up(self) -> None:
        """End queries whose answers nobody wants any more."""
        for job in self.jobs:
            if not any(self._desk.holds(work) for work in self._works[id(job)]):
                job.give_up()

    def collect(self) -> list[Task]:
        """Take in what queries have brought; returns the tasks that have ended."""
        found = []
        for job in self._workers.ended(self.jobs):
            self.jobs.remove(job)
            works = self._works.pop(id(job))
            try:
                steps = job.future.result()
            except EngineLost:
                self._workers.charge(job.tasks, "engine lost")
                raise
            except GivenUp:
                self._desk.put_back(works)
                continue
            found += self._take_in(works, steps)
        return found

    def _take_in(self, works: Sequence[Work], steps: Sequence[Step]) -> list[Task]:
        """Store what a query has brought for all its tasks, with one commit; returns those that have ended."""
        return twice(lambda: self._store(works, steps))

    def _store(self, works: Sequence[Work], steps: Sequence[Step]) -> list[Task]:
        ended = []
        with self._connection.transaction():
            if len(works) > 1:
                self._ledger.hold(work.task for work in works)
            for work, step in zip(works, steps, strict=True):
                work.busy = False
                if self._desk.take_in(work, step):
                    ended.append(work.task)
        return ended

    def _end_of_turn(self, work: Work, alone: bool) -> None:
        """One piece or a run of them; in the background, where nobody waits for answers on the way, many."""
        task, total = work.task, len(work.task.pieces or ())
        done = task.next - task.skipped
        # Where nothing else can begin beside it, it should end soon.
        most = _RUN if self._workers.places > 1 else 1
        work.upto = work.reach(most if work.background else run(done, total - task.next, work.each, alone))


def _alike(work: Work, other: Work) -> bool:
    """Whether two tasks ask the same, of the same corpus where they compare."""
    if work.template is not None or other.template is not None:
        return other.template is work.template
    mine, theirs = work.task, other.task
    return (mine.rule, mine.version, mine.question) == (theirs.rule, theirs.version, theirs.question)


def _chunks(work: Work, pieces: int) -> list[int]:
    """Those of the pieces that a task reads next."""
    return [chunk for chunk, _, _ in (work.task.pieces or ())[work.task.next : work.task.next + pieces]]


def _high(task: Task) -> int:
    return task.pieces[task.next][2] if task.pieces and task.next < len(task.pieces) else task.asked.ts
