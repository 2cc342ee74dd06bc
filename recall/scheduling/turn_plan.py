"""Which turns start now: what each of them reads, and for which tasks together. No I/O.

A turn reads a run of pieces of history for the task that is next, and for others that wait for the
same chunks. Comparisons need no engine; a turn of SQL questions is one query on an engine.
"""

import math
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice, takewhile
from types import MappingProxyType
from uuid import UUID

from archiver.times import Micros
from recall.requests import Piece
from recall.scheduling.run_length import (
    MAX_RUN_SECONDS,
    SHARED_RUN_SECONDS,
    choose_run_length,
    find_prefix_end,
)
from recall.scheduling.statistics import TaskStatistics
from recall.scheduling.stride import StrideScheduler

# Tasks of one question in one query, or in one pass of comparisons.
MAX_TASKS_PER_QUERY = 200
# Pieces that one query reads besides those that summaries answer: the open chunk, and one that has
# just been closed. So most answers are final at once.
_MIN_RUN_BESIDE_SUMMARIES = 2
# Pieces that one background query reads.
BACKGROUND_RUN_LENGTH = 32


@dataclass(frozen=True, kw_only=True)
class SchedulableTask:
    """What decides about the next turn of a task.

    `summarised`: the chunks that summaries answer, so that their pieces cost next to nothing.
    `event`: the ID of its event, and `event_ts` its time in microseconds. `question`: equal for
    tasks with the same query, or that compare with the same corpus. `next`: how many of its pieces
    are done. `tries`: failed attempts at the next piece. `is_busy`: it has a turn now. `is_whole`:
    each turn reads all pieces from the first one on. `reads_ranges`: a query can read pieces that
    are not adjacent.
    """

    id: UUID
    event: UUID
    event_ts: Micros
    question: Hashable
    needs_engine: bool
    is_background: bool
    created_at: datetime
    pieces: Sequence[Piece]
    next: int
    has_answer: bool
    tries: int
    statistics: TaskStatistics = field(default_factory=TaskStatistics)
    is_busy: bool = False
    is_whole: bool = False
    reads_ranges: bool = False
    summarised: Collection[int] = ()

    @property
    def is_answered(self) -> bool:
        """Whether it has an answer, or is a background task."""
        return self.is_background or self.has_answer

    @property
    def begins_with_summaries(self) -> bool:
        """Whether it waits for its first answer, and summaries answer a part of that."""
        if self.is_answered or not self.summarised:
            return False
        return any(chunk in self.summarised for chunk in self.next_chunks(self.run_end(1)))

    @property
    def pieces_left(self) -> int:
        """How many pieces the task has not read."""
        return len(self.pieces) - self.next

    @property
    def next_piece_end(self) -> Micros:
        """The end of the next piece in microseconds; without one, the time of the event."""
        if self.next < len(self.pieces):
            return self.pieces[self.next].high
        return self.event_ts

    def next_chunks(self, pieces: int) -> list[int]:
        """The chunks of the next pieces."""
        return [piece.chunk for piece in self.pieces[self.next : self.next + pieces]]

    def run_end(self, max_pieces: int) -> int:
        """The cursor after at most `max_pieces` pieces that one query can read, at least one.

        Those that summaries answer are not counted. Of a task that reads all pieces again: after
        about twice as many as before.
        """
        if self.is_whole:
            return find_prefix_end(len(self.pieces), self.next)
        if self.summarised:
            max_pieces = max(max_pieces, _MIN_RUN_BESIDE_SUMMARIES)
        end, read = self.next, 0
        while end < len(self.pieces):
            if end > self.next and not self._can_join(self.pieces[end - 1], self.pieces[end]):
                break
            read += self.pieces[end].chunk not in self.summarised
            if read > max_pieces:
                break
            end += 1
        return end

    def _can_join(self, first: Piece, second: Piece) -> bool:
        """Whether one query can read two pieces, the second one after the first."""
        return self.reads_ranges or _are_adjacent(first, second)

    def expected_seconds(self, end: int) -> float:
        """How long a query of the pieces up to the cursor `end` is expected to take."""
        return (self.statistics.query_seconds_per_piece or 0.0) * (end - self.next)

    def can_join(self, first: "SchedulableTask") -> bool:
        """Whether a query of another task of the same question can read for this one, too."""
        return not self.is_whole or self.next == first.next


def _are_adjacent(first: Piece, second: Piece) -> bool:
    return first.low == second.high or first.high == second.low


@dataclass(frozen=True)
class PlannedTask:
    """A task in a turn: it reads its pieces up to the cursor `end`."""

    task: SchedulableTask
    end: int

    @property
    def charge(self) -> int:
        """The pieces that the task is charged for, at least one."""
        read = self.end if self.task.is_whole else self.end - self.task.next
        return max(read, 1)


@dataclass(frozen=True)
class Turn:
    """Tasks that read history together; `batches`: by question, first that of the first task."""

    batches: tuple[tuple[PlannedTask, ...], ...]

    @property
    def first(self) -> PlannedTask:
        """The task whose turn it is; the others join it."""
        return self.batches[0][0]

    @property
    def needs_engine(self) -> bool:
        return self.first.task.needs_engine

    @property
    def charges(self) -> dict[UUID, int]:
        """The pieces that each task is charged for."""
        return {part.task.id: part.charge for batch in self.batches for part in batch}

    @property
    def has_failed_before(self) -> bool:
        """Whether an earlier attempt at the next piece of a task has failed."""
        return any(part.task.tries for batch in self.batches for part in batch)


@dataclass(frozen=True)
class EngineSlots:
    """The engines of a process.

    `free`: queries that may start now. `concurrency`: queries that may run at once. `running`:
    history queries that run. `runs_suspect`: one of them has failed before.
    """

    free: int
    concurrency: int
    running: int = 0
    runs_suspect: bool = False

    @property
    def background(self) -> int:
        """How many of the free slots background tasks may use.

        The last slot is reserved for first answers.
        """
        if self.concurrency > 1:
            return max(self.free - 1, 0)
        return self.free

    def start(self, turn: Turn) -> "EngineSlots":
        """The slots once the query of a turn has started."""
        return EngineSlots(
            free=self.free - 1,
            concurrency=self.concurrency,
            running=self.running + 1,
            runs_suspect=self.runs_suspect or turn.has_failed_before,
        )


@dataclass(frozen=True)
class Questions:
    """The questions of all active tasks: those that need an engine, and comparisons.

    Tasks of one question are read together, and comparisons use no engine: they do not compete.
    """

    of_queries: frozenset[Hashable]
    of_comparisons: frozenset[Hashable]

    @classmethod
    def of_tasks(cls, tasks: Iterable[SchedulableTask]) -> "Questions":
        queries, comparisons = set(), set()
        for task in tasks:
            if task.needs_engine:
                queries.add(task.question)
            else:
                comparisons.add(task.question)
        return cls(frozenset(queries), frozenset(comparisons))

    def has_others(self, task: SchedulableTask) -> bool:
        """Whether tasks of other questions compete with a task."""
        competing = self.of_queries if task.needs_engine else self.of_comparisons
        return not competing <= {task.question}


def plan_turns(
    tasks: Sequence[SchedulableTask],
    scheduler: StrideScheduler[UUID],
    slots: EngineSlots,
    *,
    blocked: Collection[UUID] = (),
    scan_streams: Mapping[Hashable, str] = MappingProxyType({}),
) -> list[Turn]:
    """The turns to start now, in order, each to be charged to the scheduler when it starts.

    Ends after a turn without an engine: its results decide what is next. `blocked`: tasks that
    cannot have a turn now. `scan_streams`: by question, the stream whose scan it can share with
    other questions.
    """
    scheduler = scheduler.copy()
    unavailable = {task.id for task in tasks if task.is_busy}
    unavailable.update(blocked)
    are_all_answered = all(task.is_answered for task in tasks)
    questions = Questions.of_tasks(tasks)
    queries = [task for task in tasks if task.needs_engine and task.pieces_left]
    turns: list[Turn] = []
    while True:
        planner = _TurnPlanner(scheduler, slots, questions, queries, are_all_answered, scan_streams)
        turn = planner.plan([task for task in tasks if task.id not in unavailable])
        if turn is None:
            return turns
        turns.append(turn)
        if not turn.needs_engine:
            return turns
        scheduler.charge_pieces(turn.charges)
        slots = slots.start(turn)
        unavailable.update(turn.charges)


def shorten_turn(
    turn: Turn, end: int, tasks: Iterable[SchedulableTask], blocked: Collection[UUID] = ()
) -> Turn:
    """A turn of comparisons whose first task reads only up to the cursor `end`."""
    ready = [task for task in tasks if not task.is_busy and task.id not in blocked]
    return Turn((_join_same_question(PlannedTask(turn.first.task, end), ready),))


@dataclass(frozen=True)
class _TurnPlanner:
    """Plans one turn.

    `queries`: all tasks that need an engine, busy ones too. `are_all_answered`: no task waits for
    its first answer.
    """

    scheduler: StrideScheduler[UUID]
    slots: EngineSlots
    questions: Questions
    queries: Sequence[SchedulableTask]
    are_all_answered: bool
    scan_streams: Mapping[Hashable, str]

    def plan(self, ready: Sequence[SchedulableTask]) -> Turn | None:
        """The next turn of ready tasks; None: there is none, or no slot is free for it."""
        comparisons = [task for task in ready if not task.needs_engine]
        if not self.slots.free:
            return self._plan_among(comparisons)
        turn = self._plan_among(ready)
        if turn is None and 0 < len(comparisons) < len(ready):
            # A task that waits for an engine must not delay those that need none.
            turn = self._plan_among(comparisons)
        return turn

    def _plan_among(self, ready: Sequence[SchedulableTask]) -> Turn | None:
        task = self._choose_task(ready)
        if task is None:
            return None
        first = PlannedTask(task, self._turn_end(task))
        if not task.needs_engine:
            return Turn((_join_same_question(first, ready),))
        if not self._may_start_query(task):
            return None
        return Turn(self._batch_questions(first, ready))

    def _choose_task(self, ready: Sequence[SchedulableTask]) -> SchedulableTask | None:
        candidates = _suspects(ready) or ready
        tasks_by_id = {task.id: task for task in candidates}
        next_id = self.scheduler.next_task(tasks_by_id)
        if next_id is None:
            return None
        task = tasks_by_id[next_id]
        if not task.is_answered:
            # A first answer of summaries takes a moment, and rows may take seconds.
            cheap = [other.id for other in candidates if other.begins_with_summaries]
            next_id = self.scheduler.next_task(cheap)
            task = task if next_id is None else tasks_by_id[next_id]
        if task.is_background:
            # No user waits: read the newest piece first, so that older tasks can join on the way.
            background = [candidate for candidate in candidates if candidate.is_background]
            task = max(background, key=_background_priority)
        return task

    def _turn_end(self, task: SchedulableTask) -> int:
        """How far a turn reads: one piece or a run of them; background tasks read many."""
        if not task.is_background:
            has_competitors = self.questions.has_others(task)
            # A comparison takes little of the main loop; its turns cost more than what they read.
            is_slow_to_share = has_competitors and task.needs_engine
            max_seconds = MAX_RUN_SECONDS
            in_step = self._count_in_step(task) if is_slow_to_share else None
            if in_step is not None:
                # One scan serves all of them: none gets ahead of its share.
                is_slow_to_share = False
                max_seconds = MAX_RUN_SECONDS / in_step
            elif has_competitors or self.slots.running:
                max_seconds = SHARED_RUN_SECONDS
            run_length = choose_run_length(
                task.statistics,
                task.pieces_left,
                has_competitors=is_slow_to_share,
                max_seconds=max_seconds,
            )
        elif self.slots.concurrency > 1:
            run_length = BACKGROUND_RUN_LENGTH
        else:
            run_length = 1  # nothing else can run next to it: it should end soon
        return task.run_end(run_length)

    def _count_in_step(self, task: SchedulableTask) -> int | None:
        """The number of questions that compete, if scans can serve all of them alike; else None.

        They read the same chunks of one stream, and have read equally many.
        """
        stream = self.scan_streams.get(task.question)
        if stream is None or not self.are_all_answered:
            return None
        questions = {task.question}
        for other in self.queries:
            if other.question == task.question:
                continue
            is_same_scan = self.scan_streams.get(other.question) == stream
            if not is_same_scan or not self._is_in_step(task, other):
                return None
            questions.add(other.question)
        return len(questions)

    def _is_in_step(self, task: SchedulableTask, other: SchedulableTask) -> bool:
        """Whether two tasks read the same pieces from now on, and are served alike."""
        return (
            not (task.tries or other.tries or task.is_whole or other.is_whole)
            and other.is_background == task.is_background
            and (other.next, other.pieces_left) == (task.next, task.pieces_left)
            and other.pieces[other.next].chunk == task.pieces[task.next].chunk
            and other.pieces[-1].chunk == task.pieces[-1].chunk
            and self.scheduler.has_same_share(task.id, other.id)
        )

    def _may_start_query(self, task: SchedulableTask) -> bool:
        if not self.slots.free or (task.is_background and not self.slots.background):
            return False
        # A task that may crash the process runs alone.
        return not self.slots.runs_suspect and not (task.tries and self.slots.running)

    def _batch_questions(
        self, first: PlannedTask, ready: Sequence[SchedulableTask]
    ) -> tuple[tuple[PlannedTask, ...], ...]:
        """What one query reads, by question: first for the tasks of the first task's question.

        Other questions about the same stream join if they wait for the same chunks and their turn
        comes before this one's next. None joins while a task waits for its first answer, which
        would be delayed; and no more join than leave an equal share to each free engine.
        """
        batches = [_join_same_question(first, ready)]
        all_reading = all(part.task.pieces_left for part in batches[0])
        if first.task.tries or not self.are_all_answered or not all_reading:
            return tuple(batches)
        pieces = first.end - first.task.next
        candidates: dict[Hashable, SchedulableTask] = {}  # one task of each question
        for candidate in ready:
            if self._can_join(first, candidate):
                candidates.setdefault(candidate.question, candidate)
        tasks_by_question: dict[Hashable, list[SchedulableTask]] = {}
        for other in ready:
            tasks_by_question.setdefault(other.question, []).append(other)
        share = math.ceil((1 + len(candidates)) / self.slots.free)
        expected_seconds = first.task.expected_seconds(first.end)
        for candidate in list(candidates.values())[: share - 1]:
            joined = PlannedTask(candidate, candidate.run_end(pieces))
            expected_seconds += candidate.expected_seconds(joined.end)
            if expected_seconds > MAX_RUN_SECONDS:
                break
            batches.append(_join_same_question(joined, tasks_by_question[candidate.question]))
        return tuple(batches)

    def _can_join(self, first: PlannedTask, candidate: SchedulableTask) -> bool:
        """Whether a task of another question can be read together with the first task."""
        task = first.task
        if not candidate.needs_engine or candidate.tries or not candidate.pieces_left:
            return False
        if candidate.question == task.question:
            return False
        pieces = first.end - task.next
        stream = self.scan_streams.get(task.question)
        return (
            task.next_chunks(pieces) == candidate.next_chunks(pieces)
            and candidate.is_background == task.is_background
            and self.scheduler.is_due_before(candidate.id, task.id, pieces)
            and stream is not None
            and self.scan_streams.get(candidate.question) == stream
        )


def _join_same_question(
    first: PlannedTask, ready: Iterable[SchedulableTask]
) -> tuple[PlannedTask, ...]:
    """The task, and others of the same question and level that wait for a chunk of its turn.

    At most one task of each event: a query tells its rows apart by event.
    """
    task = first.task
    if task.tries:
        return (first,)
    chunks = set(task.next_chunks(first.end - task.next))
    parts = [first]
    events = {task.event}
    for candidate in ready:
        if (
            candidate.id != task.id
            and candidate.question == task.question
            and candidate.is_background == task.is_background
            and not candidate.tries
            and candidate.pieces_left
            and candidate.can_join(task)
            and candidate.event not in events
        ):
            shared_pieces = _count_leading_pieces(candidate, chunks)
            if shared_pieces:
                events.add(candidate.event)
                parts.append(PlannedTask(candidate, candidate.run_end(shared_pieces)))
    return tuple(parts[:MAX_TASKS_PER_QUERY])


def _suspects(ready: Sequence[SchedulableTask]) -> list[SchedulableTask]:
    """Of the tasks at the level that is served next, those with the most failed attempts.

    They come first: a task that was charged by chance succeeds, and its count is reset.
    """
    only_background = all(task.is_background for task in ready)
    tried = [task for task in ready if task.tries and task.is_background == only_background]
    max_tries = max((task.tries for task in tried), default=0)
    return [task for task in tried if task.tries == max_tries]


def _background_priority(task: SchedulableTask) -> tuple[int, datetime]:
    """The end of the next piece, then the age of the task: the greatest is read first."""
    return task.next_piece_end, task.created_at


def _count_leading_pieces(task: SchedulableTask, chunks: Collection[int]) -> int:
    """How many of the next pieces of a task are of some chunks, without a gap."""
    unread = islice(task.pieces, task.next, None)
    return sum(1 for _ in takewhile(lambda piece: piece.chunk in chunks, unread))
