"""Turns: which tasks read which piece of history next, together where they ask the same of the same chunk."""

import math
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any
from uuid import UUID

import psycopg
from psycopg import Connection

import sql
from recall.engines import EventTables
from recall.ledger import Ledger, Task, TurnResult, retry_on_deadlock
from recall.query import sql_names
from recall.requests import SimilarQuestion
from recall.scheduling import MAX_RUN_SECONDS, choose_run_length
from recall.worker.active_tasks import ActiveTask, ActiveTasks
from recall.worker.comparisons import ComparisonRunner
from recall.worker.history_queries import ReadBatch, read_batches
from recall.worker.preparation import HistoryPreparation
from recall.worker.query_slots import Cancelled, EngineLost, Job, Workers, summarise_error

_CONTEXTS = sql.load("contexts")

# Most tasks in one query; and of those that are compared with a piece of the corpus in one pass.
_MAX_TASKS_PER_QUERY = 200
# Pieces that one query reads in the background.
_BACKGROUND_RUN_LENGTH = 32


class Dispatcher:
    """History queries of the tasks on a desk, at most as many at once as there are engines."""

    def __init__(
        self,
        connection: Connection[Any],
        ledger: Ledger,
        active_tasks: ActiveTasks,
        comparisons: ComparisonRunner,
        preparation: HistoryPreparation,
        workers: Workers,
    ) -> None:
        self.jobs: list[Job[list[TurnResult]]] = []
        self._connection = connection
        self._ledger = ledger
        self._active_tasks = active_tasks
        self._comparisons = comparisons
        self._preparation = preparation
        self._workers = workers
        self._tasks_by_job: dict[int, list[ActiveTask]] = {}

    # Giving

    def dispatch(self) -> list[Task] | None:
        """Give the next task its turn; returns what ended with it, None: there is no task, or no room."""
        able = [
            number
            for number in self._active_tasks.idle_task_ids()
            if number not in self._preparation.waiting_task_ids
        ]
        if not self._workers.free_slots:
            able = [number for number in able if self._is_comparison(number)]
        ended = self._dispatch_one(able)
        if ended is None:
            # What waits for an engine, or must be alone with them, does not hold up what needs none.
            free = [number for number in able if self._is_comparison(number)]
            ended = self._dispatch_one(free) if 0 < len(free) < len(able) else None
        return ended

    def _is_comparison(self, number: UUID) -> bool:
        return isinstance(self._active_tasks.tasks[number].task.question, SimilarQuestion)

    def _dispatch_one(self, able: list[UUID]) -> list[Task] | None:
        number = self._active_tasks.stride.next_task(self._suspect_ids(able) or able)
        if number is None:
            return None
        work = self._active_tasks.tasks[number]
        if work.is_background:
            # Nobody waits: the newest piece first, where others join in on the way down.
            first = self._suspect_ids(able) or able
            others = [
                w for w in map(self._active_tasks.tasks.__getitem__, first) if w.is_background
            ]
            work = max(others, key=lambda w: (_next_piece_end(w.task), w.task.created_at))
        # Tasks that are read together anyway are one.
        alone = not self.jobs and all(
            _have_same_question(work, self._active_tasks.tasks[other]) for other in able
        )
        self._set_turn_end(work, alone)
        try:
            return self._start_turn(work, able)
        except (psycopg.Error, EngineLost):
            raise
        except Exception as error:  # what is odd about one task is its own
            self._active_tasks.fail(work.task, summarise_error(error))
            return []

    def _suspect_ids(self, able: Sequence[UUID]) -> list[UUID]:
        """Of the tasks that wait at the level whose turn it is, those over which the process fell most often: they come
        first. Whom it was killed over by chance has gone on when it is killed again."""
        works = [self._active_tasks.tasks[number] for number in able]
        tried = [
            work
            for work in works
            if work.task.tries and work.is_background == all(w.is_background for w in works)
        ]
        most = max((work.task.tries for work in tried), default=0)
        return [work.task.id for work in tried if work.task.tries == most]

    def _start_turn(self, work: ActiveTask, able: Iterable[UUID]) -> list[Task] | None:
        workers = self._workers
        if work.template is None:
            if self._preparation.prepare_next_piece(work):
                return []
            works = self._tasks_of_same_question(work, able)
            self._active_tasks.stride.charge_pieces(
                {one.task.id: max(one.turn_end - one.task.next, 1) for one in works}
            )
            return self._compare(works)
        if not workers.free_slots or (work.is_background and not workers.background_slots):
            return None
        suspects = [task for job in self.jobs for task in job.tasks if task.tries]
        if suspects or (work.task.tries and self.jobs):
            return None  # over what the process may fall, it works alone
        readings = self._batch_queries(work, list(able))
        works = [one for reading in readings for one in reading.active_tasks]
        for one in works:
            one.is_busy = True
        tasks = [one.task for one in works]
        self._active_tasks.stride.charge_pieces(
            {one.task.id: max(one.turn_end - one.task.next, 1) for one in works}
        )
        job = workers.start(tasks, "history query", lambda asking: read_batches(asking, readings))
        self.jobs.append(job)
        self._tasks_by_job[id(job)] = works
        return []

    def _batch_queries(self, work: ActiveTask, able: Sequence[UUID]) -> list[ReadBatch]:
        """The tasks that one history query serves, by question: those of the task's question; and of others about the
        same stream those that wait for the same chunk, if their turn comes before this one's next.

        Nobody joins while anybody waits for a first answer, which would take longer. Nor do more join than leave an
        even part to each engine that is free.
        """
        works = self._tasks_of_same_question(work, able)
        found = [ReadBatch(works, self._load_event_tables(works))]
        waited_for = any(not one.is_answered for one in self._active_tasks.tasks.values())
        if work.task.tries or waited_for or not all(one.pieces_left for one in works):
            return found
        others: dict[int, ActiveTask] = {}
        for other in map(self._active_tasks.tasks.__getitem__, able):
            if self._can_join(work, other):
                others.setdefault(id(other.template), other)
        part = math.ceil((1 + len(others)) / self._workers.free_slots)
        seconds = work.expected_seconds
        for other in list(others.values())[: part - 1]:
            other.turn_end = other.cursor_after(work.turn_end - work.task.next)
            seconds += other.expected_seconds
            if seconds > MAX_RUN_SECONDS:
                break
            found.append(ReadBatch(self._tasks_of_same_question(other, able), {}))
        return found

    def _can_join(self, work: ActiveTask, other: ActiveTask) -> bool:
        """Whether a task of another question can be read for together with one."""
        if (
            other.template is None
            or _have_same_question(work, other)
            or other.task.tries
            or not other.pieces_left
        ):
            return False
        pieces = work.turn_end - work.task.next
        return (
            _next_chunks(work, pieces) == _next_chunks(other, pieces)
            and other.is_background == work.is_background
            and self._active_tasks.stride.is_due_before(other.task.id, work.task.id, pieces)
            and self._read_same_stream(work, other)
        )

    def _read_same_stream(self, work: ActiveTask, other: ActiveTask) -> bool:
        """Whether both are answered in this process, from the rows of one stream and nothing else."""
        assert work.template is not None and other.template is not None
        try:
            stream = self._workers.shared_scan_stream(work.template)
            return stream is not None and self._workers.shared_scan_stream(other.template) == stream
        except Exception:  # what is odd about one of them is told when it is asked by itself
            return False

    def _tasks_of_same_question(self, work: ActiveTask, able: Iterable[UUID]) -> list[ActiveTask]:
        """The task and others of the same question: those that wait for the same chunk; in the background, where
        several chunks are read at once, all that come by there."""
        if work.task.tries:
            return [work]
        chunks = set(_next_chunks(work, work.turn_end - work.task.next))
        same: list[ActiveTask] = []
        events = {work.task.event.eid}  # rows of a query are told apart by event
        for other in map(self._active_tasks.tasks.__getitem__, able):
            if (
                other is not work
                and _have_same_question(work, other)
                and not other.task.tries
                and other.pieces_left
            ):
                assert other.task.pieces is not None
                rest = other.task.pieces[other.task.next :]
                same_level = other.is_background == work.is_background
                if rest[0][0] in chunks and same_level and other.task.event.eid not in events:
                    events.add(other.task.event.eid)
                    other.turn_end = other.cursor_after(
                        sum(1 for _ in takewhile(lambda piece: piece[0] in chunks, rest))
                    )
                    same.append(other)
        return [work, *same[: _MAX_TASKS_PER_QUERY - 1]]

    def _compare(self, works: list[ActiveTask]) -> list[Task]:
        """What needs no engine: similarity over the index in memory, for all that wait for the same chunk. A comparison
        that fails is tried for each task by itself."""
        try:
            steps = self._comparisons.compare(works)
        except psycopg.Error:
            raise
        except Exception as error:
            for one in works:
                one.comparison = None  # some are compared, some not: they go on from what was kept
            if len(works) > 1:
                return [ended for one in works for ended in self._compare([one])]
            self._active_tasks.fail(works[0].task, summarise_error(error))
            return []
        return self._record(works, steps)

    def _load_event_tables(self, works: list[ActiveTask]) -> EventTables:
        """The rows of the rule's own tables that a question names, for some events."""
        template = works[0].template
        assert template is not None
        if not template.reads_event_tables:
            return {}
        tables: dict[str, dict[str, Any]] = {
            n: {} for n in template.partial.inputs.event_tables | template.merge.inputs.event_tables
        }
        tables.pop(sql_names.MERGED_TABLE, None)
        if tables:
            eids = [work.task.event.eid for work in works]
            found = self._connection.execute(_CONTEXTS["context"], {"eids": eids}).fetchall()
            for _, _, eid, _, contexts, surroundings, _ in found:
                for name in tables:
                    tables[name][str(eid)] = contexts.get(name) or surroundings.get(name) or []
        return tables

    # Taking in

    def cancel_unwanted(self) -> None:
        """End queries whose answers nobody wants any more."""
        for job in self.jobs:
            if not any(self._active_tasks.is_current(work) for work in self._tasks_by_job[id(job)]):
                job.cancel()

    def collect_finished(self) -> list[Task]:
        """Take in what queries have brought; returns the tasks that have ended."""
        found = []
        for job in self._workers.pop_finished(self.jobs):
            self.jobs.remove(job)
            works = self._tasks_by_job.pop(id(job))
            try:
                steps = job.future.result()
            except EngineLost:
                self._workers.count_failed_attempt(job.tasks, "engine lost")
                raise
            except Cancelled:
                self._active_tasks.requeue(works)
                continue
            found += self._record(works, steps)
        return found

    def _record(self, works: Sequence[ActiveTask], steps: Sequence[TurnResult]) -> list[Task]:
        """Store what a query has brought for all its tasks, with one commit; returns those that have ended."""
        return retry_on_deadlock(lambda: self._record_in_transaction(works, steps))

    def _record_in_transaction(
        self, works: Sequence[ActiveTask], steps: Sequence[TurnResult]
    ) -> list[Task]:
        ended = []
        with self._connection.transaction():
            if len(works) > 1:
                self._ledger.lock_tasks(work.task for work in works)
            for work, step in zip(works, steps, strict=True):
                work.is_busy = False
                if self._active_tasks.record(work, step):
                    ended.append(work.task)
        return ended

    def _set_turn_end(self, work: ActiveTask, alone: bool) -> None:
        """One piece or a run of them; in the background, where nobody waits for answers on the way, many."""
        task, total = work.task, len(work.task.pieces or ())
        done = task.next - task.skipped
        # Where nothing else can begin beside it, it should end soon.
        most = _BACKGROUND_RUN_LENGTH if self._workers.concurrency > 1 else 1
        work.turn_end = work.cursor_after(
            most
            if work.is_background
            else choose_run_length(done, total - task.next, work.seconds_per_piece, alone)
        )


def _have_same_question(work: ActiveTask, other: ActiveTask) -> bool:
    """Whether two tasks ask the same, of the same corpus where they compare."""
    if work.template is not None or other.template is not None:
        return other.template is work.template
    mine, theirs = work.task, other.task
    return (mine.rule, mine.version, mine.question) == (
        theirs.rule,
        theirs.version,
        theirs.question,
    )


def _next_chunks(work: ActiveTask, pieces: int) -> list[int]:
    """Those of the pieces that a task reads next."""
    return [
        chunk for chunk, _, _ in (work.task.pieces or ())[work.task.next : work.task.next + pieces]
    ]


def _next_piece_end(task: Task) -> int:
    return (
        task.pieces[task.next][2] if task.pieces and task.next < len(task.pieces) else task.event.ts
    )
