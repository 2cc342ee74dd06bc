"""The dispatcher: gives tasks turns, together if they read the same chunk, and records results."""

import math
from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any

import psycopg
from psycopg import Connection

import sql
from recall.engines import EventTables
from recall.errors import Cancelled, EngineLost
from recall.ledger import Ledger, Task, TurnResult, retry_on_deadlock
from recall.query import sql_names
from recall.requests import SimilarQuestion
from recall.scheduling import MAX_RUN_SECONDS, choose_run_length
from recall.worker.active_tasks import ActiveTask, ActiveTasks
from recall.worker.comparisons import ComparisonRunner
from recall.worker.history_queries import ReadBatch, read_batches
from recall.worker.preparation import HistoryPreparation
from recall.worker.query_slots import Job, Workers, summarise_error

# Tasks in one query, or in one pass of comparisons.
_MAX_TASKS_PER_QUERY = 200
# Pieces that one background query reads.
_BACKGROUND_RUN_LENGTH = 32


class Dispatcher:
    """Starts the turns of active tasks, with at most one history query per engine."""

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

    # Starting turns

    def dispatch(self) -> list[Task] | None:
        """Give the next task its turn.

        Returns the tasks that have ended with it; None if no task is ready or no slot is free.
        """
        waiting = self._preparation.waiting_task_ids
        ready = [
            active_task
            for task_id, active_task in self._active_tasks.tasks.items()
            if not active_task.is_busy and task_id not in waiting
        ]
        comparisons = list(filter(_is_comparison, ready))
        if not self._workers.free_slots:
            return self._dispatch_one(comparisons)
        ended = self._dispatch_one(ready)
        if ended is None and 0 < len(comparisons) < len(ready):
            # A task that waits for an engine must not delay those that need none.
            ended = self._dispatch_one(comparisons)
        return ended

    def _dispatch_one(self, ready: Sequence[ActiveTask]) -> list[Task] | None:
        candidates = _suspects(ready) or ready
        candidates_by_id = {candidate.task.id: candidate for candidate in candidates}
        task_id = self._active_tasks.stride.next_task(candidates_by_id)
        if task_id is None:
            return None
        active_task = candidates_by_id[task_id]
        if active_task.is_background:
            # No user waits: read the newest piece first, so that older tasks can join on the way.
            background = [candidate for candidate in candidates if candidate.is_background]
            active_task = max(background, key=_background_priority)
        # Tasks of the same question are read together: they do not compete.
        alone = not self.jobs and all(
            _have_same_question(active_task, candidate) for candidate in ready
        )
        self._set_turn_end(active_task, alone)
        try:
            return self._start_turn(active_task, ready)
        except (psycopg.Error, EngineLost):
            raise
        except Exception as error:  # a fault of this task must not stop the others
            self._active_tasks.fail(active_task.task, summarise_error(error))
            return []

    def _start_turn(
        self, active_task: ActiveTask, ready: Sequence[ActiveTask]
    ) -> list[Task] | None:
        if active_task.template is None:
            if self._preparation.prepare_next_piece(active_task):
                return []
            compared_tasks = self._tasks_of_same_question(active_task, ready)
            self._charge(compared_tasks)
            return self._compare(compared_tasks)
        if not self._workers.free_slots:
            return None
        if active_task.is_background and not self._workers.background_slots:
            return None
        # A task that may crash the process runs alone.
        if active_task.task.tries and self.jobs:
            return None
        if any(task.tries for job in self.jobs for task in job.tasks):
            return None
        self._start_query(self._batch_queries(active_task, ready))
        return []

    def _start_query(self, batches: Sequence[ReadBatch]) -> None:
        active_tasks: list[ActiveTask] = []
        for batch in batches:
            active_tasks += batch.active_tasks
        for active_task in active_tasks:
            active_task.is_busy = True
        self._charge(active_tasks)
        job = self._workers.start(
            [active_task.task for active_task in active_tasks],
            "history query",
            lambda slot: read_batches(slot, batches),
        )
        self.jobs.append(job)
        self._tasks_by_job[id(job)] = active_tasks

    def _charge(self, active_tasks: Iterable[ActiveTask]) -> None:
        """Charge tasks for the pieces of their turn, at least one."""
        pieces_by_task = {
            active_task.task.id: max(active_task.turn_end - active_task.task.next, 1)
            for active_task in active_tasks
        }
        self._active_tasks.stride.charge_pieces(pieces_by_task)

    def _batch_queries(
        self, active_task: ActiveTask, ready: Sequence[ActiveTask]
    ) -> list[ReadBatch]:
        """What one history query reads, by question: first for the tasks of the task's question.

        Other questions about the same stream join if they wait for the same chunks and their turn
        comes before this one's next. None joins while a task waits for its first answer, which
        would be delayed; and no more join than leave an equal share to each free engine.
        """
        same_question = self._tasks_of_same_question(active_task, ready)
        batches = [ReadBatch(same_question, self._load_event_tables(same_question))]
        all_answered = all(other.is_answered for other in self._active_tasks.tasks.values())
        all_reading = all(other.pieces_left for other in same_question)
        if active_task.task.tries or not all_answered or not all_reading:
            return batches
        candidates: dict[int, ActiveTask] = {}  # one task of each question
        for candidate in ready:
            if self._can_join(active_task, candidate):
                candidates.setdefault(id(candidate.template), candidate)
        share = math.ceil((1 + len(candidates)) / self._workers.free_slots)
        expected_seconds = active_task.expected_seconds
        for candidate in list(candidates.values())[: share - 1]:
            candidate.turn_end = candidate.run_end(active_task.turn_end - active_task.task.next)
            expected_seconds += candidate.expected_seconds
            if expected_seconds > MAX_RUN_SECONDS:
                break
            batches.append(ReadBatch(self._tasks_of_same_question(candidate, ready), {}))
        return batches

    def _can_join(self, active_task: ActiveTask, candidate: ActiveTask) -> bool:
        """Whether a task of another question can be read together with `active_task`."""
        if candidate.template is None or candidate.task.tries or not candidate.pieces_left:
            return False
        if _have_same_question(active_task, candidate):
            return False
        pieces = active_task.turn_end - active_task.task.next
        return (
            _next_chunks(active_task, pieces) == _next_chunks(candidate, pieces)
            and candidate.is_background == active_task.is_background
            and self._active_tasks.stride.is_due_before(
                candidate.task.id, active_task.task.id, pieces
            )
            and self._read_same_stream(active_task, candidate)
        )

    def _read_same_stream(self, active_task: ActiveTask, candidate: ActiveTask) -> bool:
        """Whether the local engine answers both from the rows of one stream and nothing else."""
        assert active_task.template is not None and candidate.template is not None
        try:
            stream = self._workers.shared_scan_stream(active_task.template)
            if stream is None:
                return False
            return self._workers.shared_scan_stream(candidate.template) == stream
        except Exception:  # reported when the failing query runs separately
            return False

    def _tasks_of_same_question(
        self, active_task: ActiveTask, ready: Iterable[ActiveTask]
    ) -> list[ActiveTask]:
        """The task, and others of the same question and level that wait for a chunk of its turn.

        Sets the end of the turn of the others. At most one task of each event: a query tells its
        rows apart by event.
        """
        if active_task.task.tries:
            return [active_task]
        chunks = set(_next_chunks(active_task, active_task.turn_end - active_task.task.next))
        same = [active_task]
        events = {active_task.task.event.eid}
        for candidate in ready:
            if (
                candidate is not active_task
                and _have_same_question(active_task, candidate)
                and candidate.is_background == active_task.is_background
                and not candidate.task.tries
                and candidate.pieces_left
                and candidate.task.event.eid not in events
            ):
                shared_pieces = _count_leading_pieces(candidate, chunks)
                if shared_pieces:
                    events.add(candidate.task.event.eid)
                    candidate.turn_end = candidate.run_end(shared_pieces)
                    same.append(candidate)
        return same[:_MAX_TASKS_PER_QUERY]

    def _compare(self, active_tasks: list[ActiveTask]) -> list[Task]:
        """Compare in this thread, without an engine; returns the tasks that have ended.

        If a comparison fails, it is repeated for each task separately.
        """
        try:
            results = self._comparisons.compare(active_tasks)
        except psycopg.Error:
            raise
        except Exception as error:
            for active_task in active_tasks:
                # Some tasks were compared, some were not: all resume from what is stored.
                active_task.comparison = None
            if len(active_tasks) == 1:
                self._active_tasks.fail(active_tasks[0].task, summarise_error(error))
                return []
            ended = []
            for active_task in active_tasks:
                ended += self._compare([active_task])
            return ended
        return self._record(active_tasks, results)

    def _load_event_tables(self, active_tasks: Sequence[ActiveTask]) -> EventTables:
        """The rows of the contexts and surroundings that a question names, for its events."""
        template = active_tasks[0].template
        assert template is not None
        if not template.reads_event_tables:
            return {}
        names = template.partial.inputs.event_tables | template.merge.inputs.event_tables
        tables: dict[str, dict[str, Any]] = {name: {} for name in names - {sql_names.MERGED_TABLE}}
        if not tables:
            return {}
        eids = [active_task.task.event.eid for active_task in active_tasks]
        for row in sql.ContextGateway(self._connection).list_of_events(eids):
            for name, rows_by_event in tables.items():
                rows = row.contexts.get(name) or row.surroundings.get(name) or []
                rows_by_event[str(row.eid)] = rows
        return tables

    # Recording results

    def cancel_unwanted(self) -> None:
        """Cancel queries none of whose tasks is active any more."""
        for job in self.jobs:
            active_tasks = self._tasks_by_job[id(job)]
            if not any(map(self._active_tasks.is_current, active_tasks)):
                job.cancel()

    def collect_finished(self) -> list[Task]:
        """Record the results of finished queries; returns the tasks that have ended."""
        ended = []
        for job in self._workers.pop_finished(self.jobs):
            self.jobs.remove(job)
            active_tasks = self._tasks_by_job.pop(id(job))
            try:
                results = job.future.result()
            except EngineLost:
                self._workers.count_failed_attempt(job.tasks, job.description, "engine_lost")
                raise
            except Cancelled:
                self._active_tasks.requeue(active_tasks)
                continue
            ended += self._record(active_tasks, results)
        return ended

    def _record(
        self, active_tasks: Sequence[ActiveTask], results: Sequence[TurnResult]
    ) -> list[Task]:
        """Store the results of one query in one transaction; returns the tasks that have ended."""
        return retry_on_deadlock(lambda: self._record_in_transaction(active_tasks, results))

    def _record_in_transaction(
        self, active_tasks: Sequence[ActiveTask], results: Sequence[TurnResult]
    ) -> list[Task]:
        ended = []
        with self._connection.transaction():
            if len(active_tasks) > 1:
                self._ledger.lock_tasks(active_task.task for active_task in active_tasks)
            for active_task, result in zip(active_tasks, results, strict=True):
                active_task.is_busy = False
                if self._active_tasks.record(active_task, result):
                    ended.append(active_task.task)
        return ended

    def _set_turn_end(self, active_task: ActiveTask, alone: bool) -> None:
        """How many pieces a turn reads: one or a run of them; background tasks read many."""
        task = active_task.task
        if not active_task.is_background:
            pieces_read = task.next - task.skipped
            run_length = choose_run_length(
                pieces_read, active_task.pieces_left, active_task.seconds_per_piece, alone
            )
        elif self._workers.concurrency > 1:
            run_length = _BACKGROUND_RUN_LENGTH
        else:
            run_length = 1  # nothing else can run next to it: it should end soon
        active_task.turn_end = active_task.run_end(run_length)


def _is_comparison(active_task: ActiveTask) -> bool:
    return isinstance(active_task.task.question, SimilarQuestion)


def _suspects(ready: Sequence[ActiveTask]) -> list[ActiveTask]:
    """Of the tasks at the level that is served next, those with the most failed attempts.

    They come first: a task that was charged by chance succeeds, and its count is reset.
    """
    only_background = all(active_task.is_background for active_task in ready)
    tried = [
        active_task
        for active_task in ready
        if active_task.task.tries and active_task.is_background == only_background
    ]
    max_tries = max(map(_tries, tried), default=0)
    return [active_task for active_task in tried if _tries(active_task) == max_tries]


def _tries(active_task: ActiveTask) -> int:
    return active_task.task.tries


def _background_priority(active_task: ActiveTask) -> tuple[Any, ...]:
    """The end of the next piece, then the age of the task: the greatest is read first."""
    task = active_task.task
    next_piece_end = task.event.ts
    if task.pieces and task.next < len(task.pieces):
        next_piece_end = task.pieces[task.next][2]
    return next_piece_end, task.created_at


def _have_same_question(first: ActiveTask, second: ActiveTask) -> bool:
    """Whether two tasks have the same query, or compare with the same corpus."""
    if first.template is not None or second.template is not None:
        return first.template is second.template
    return (first.task.rule, first.task.version, first.task.question) == (
        second.task.rule,
        second.task.version,
        second.task.question,
    )


def _next_chunks(active_task: ActiveTask, pieces: int) -> list[int]:
    """The chunks of the next pieces of a task."""
    task = active_task.task
    return [chunk for chunk, _, _ in (task.pieces or ())[task.next : task.next + pieces]]


def _count_leading_pieces(active_task: ActiveTask, chunks: set[int]) -> int:
    """How many of the next pieces of a task are of some chunks, without a gap."""
    next_chunks = _next_chunks(active_task, active_task.pieces_left)
    return sum(1 for _ in takewhile(chunks.__contains__, next_chunks))
