"""Planned turns, whatever the tasks: without a database, threads or engines."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from recall.requests import Piece
from recall.scheduling.run_length import MAX_RUN_SECONDS
from recall.scheduling.statistics import TaskStatistics
from recall.scheduling.stride import StrideScheduler
from recall.scheduling.turn_plan import (
    MAX_TASKS_PER_QUERY,
    EngineSlots,
    PlannedTask,
    SchedulableTask,
    Turn,
    plan_turns,
    shorten_turn,
)

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
QUESTIONS = 4
"""The first reads no stream that can be shared, the last is a comparison."""
SCAN_STREAMS = {1: "cpu", 2: "cpu"}
CHUNKS = [Piece(number, number * 10, number * 10 + 10) for number in range(8)]


@st.composite
def schedulable_tasks(draw: st.DrawFn) -> list[SchedulableTask]:
    """Up to a dozen tasks in all states; some of the same event."""
    tasks = []
    for number in range(draw(st.integers(1, 12))):
        pieces = draw(st.lists(st.sampled_from(CHUNKS), unique=True, max_size=8))
        if draw(st.booleans()):
            pieces = sorted(pieces, key=lambda piece: -piece.chunk)
        skipped = draw(st.integers(0, len(pieces)))
        done = draw(st.integers(skipped, len(pieces)))
        question = draw(st.integers(0, QUESTIONS - 1))
        task = SchedulableTask(
            id=UUID(int=number + 1),
            event=UUID(int=draw(st.integers(1, number + 1))),
            event_ts=100,
            question=question,
            needs_engine=question < QUESTIONS - 1,
            is_background=draw(st.booleans()),
            created_at=CREATED + timedelta(seconds=draw(st.integers(0, 5))),
            pieces=tuple(pieces),
            next=done,
            has_answer=draw(st.sampled_from([True, True, True, False])),
            tries=draw(st.sampled_from([0, 0, 0, 0, 1, 2])),
            statistics=TaskStatistics(
                pieces=done - skipped, query_seconds_per_piece=draw(st.none() | st.floats(0, 2))
            ),
            is_busy=draw(st.sampled_from([False, False, False, True])),
        )
        tasks.append(task)
    return tasks


@st.composite
def engine_slots(draw: st.DrawFn) -> EngineSlots:
    concurrency = draw(st.integers(1, 3))
    running = draw(st.integers(0, concurrency))
    return EngineSlots(
        free=draw(st.integers(0, concurrency - running)),
        concurrency=concurrency,
        running=running,
        runs_suspect=running > 0 and draw(st.booleans()),
    )


TASKS, SLOTS = schedulable_tasks(), engine_slots()
TICKETS = st.lists(st.integers(1, 20), min_size=12, max_size=12)


def schedule(tasks: Sequence[SchedulableTask], tickets: Sequence[int]) -> StrideScheduler[UUID]:
    scheduler: StrideScheduler[UUID] = StrideScheduler()
    for task, count in zip(tasks, tickets, strict=False):
        scheduler.join(task.id, count, int(task.is_background))
    return scheduler


def plan(
    tasks: Sequence[SchedulableTask], tickets: Sequence[int], slots: EngineSlots
) -> list[Turn]:
    return plan_turns(tasks, schedule(tasks, tickets), slots, scan_streams=SCAN_STREAMS)


def parts_of(turn: Turn) -> list[PlannedTask]:
    return [part for batch in turn.batches for part in batch]


@given(TASKS, TICKETS, SLOTS)
def test_turns_read_the_next_pieces_of_ready_tasks(
    tasks: list[SchedulableTask], tickets: list[int], slots: EngineSlots
) -> None:
    """Each task has one turn at most, within its pieces, and at least one of those left."""
    served: list[UUID] = []
    for turn in plan(tasks, tickets, slots):
        for part in parts_of(turn):
            task = part.task
            assert task in tasks and not task.is_busy
            assert min(task.next + 1, len(task.pieces)) <= part.end <= len(task.pieces)
            assert turn.charges[task.id] == max(part.end - task.next, 1)
            run = task.pieces[task.next : part.end]
            for newer, older in pairwise(run):
                assert newer.low == older.high or newer.high == older.low
            served.append(task.id)
    assert len(served) == len(set(served))


@given(TASKS, TICKETS, SLOTS)
def test_queries_fit_the_free_engines(
    tasks: list[SchedulableTask], tickets: list[int], slots: EngineSlots
) -> None:
    """Comparisons need none, and end the plan. Background queries leave an engine free."""
    turns = plan(tasks, tickets, slots)
    queries = [turn for turn in turns if turn.needs_engine]
    assert len(queries) <= slots.free
    assert all(turn.needs_engine for turn in turns[:-1])
    free = slots.free
    for turn in queries:
        if turn.first.task.is_background and slots.concurrency > 1:
            assert free > 1
        free -= 1


@given(TASKS, TICKETS, SLOTS)
def test_no_slot_stays_free_while_a_task_waits_for_it(
    tasks: list[SchedulableTask], tickets: list[int], slots: EngineSlots
) -> None:
    turns = plan(tasks, tickets, slots)
    interactive = [t for t in tasks if not (t.is_busy or t.is_background or t.tries)]
    suspects = [task for task in tasks if task.tries]
    if slots.free and interactive and not suspects and not slots.runs_suspect:
        assert turns
    if any(not task.needs_engine for task in interactive) and not suspects:
        assert turns


@given(TASKS, TICKETS, SLOTS)
def test_task_with_failed_attempts_runs_alone(
    tasks: list[SchedulableTask], tickets: list[int], slots: EngineSlots
) -> None:
    suspect_runs = slots.runs_suspect
    running = slots.running
    for turn in plan(tasks, tickets, slots):
        if turn.has_failed_before:
            assert len(parts_of(turn)) == 1
        if turn.needs_engine:
            assert not suspect_runs
            assert not (turn.has_failed_before and running)
            running += 1
            suspect_runs = turn.has_failed_before


@given(TASKS, TICKETS, SLOTS)
def test_interactive_tasks_come_before_background_tasks(
    tasks: list[SchedulableTask], tickets: list[int], slots: EngineSlots
) -> None:
    """A background query starts only if no interactive task waits for an engine."""
    served: set[UUID] = set()
    for turn in plan(tasks, tickets, slots):
        if turn.needs_engine and turn.first.task.is_background:
            for task in tasks:
                assert task.is_busy or task.is_background or task.id in served
        served.update(turn.charges)


@given(TASKS, TICKETS)
def test_newest_piece_of_background_tasks_is_read_first(
    tasks: list[SchedulableTask], tickets: list[int]
) -> None:
    tasks = [replace(task, is_background=True, tries=0) for task in tasks]
    for turn in plan(tasks, tickets, EngineSlots(free=1, concurrency=1))[:1]:
        first = turn.first.task
        for task in tasks:
            if not task.is_busy:
                assert task.next_piece_end <= first.next_piece_end


@given(TASKS, TICKETS, SLOTS)
def test_tasks_that_join_wait_for_the_same_chunks(
    tasks: list[SchedulableTask], tickets: list[int], slots: EngineSlots
) -> None:
    """Of one question for chunks of the first task's turn, of others for the same ones."""
    for turn in plan(tasks, tickets, slots):
        for batch in turn.batches:
            assert len(batch) <= MAX_TASKS_PER_QUERY
            assert len({part.task.question for part in batch}) == 1
            assert len({part.task.event for part in batch}) == len(batch)
            first = batch[0]
            chunks = set(first.task.next_chunks(first.end - first.task.next))
            for part in batch[1:]:
                assert set(part.task.next_chunks(part.end - part.task.next)) <= chunks
                assert part.task.is_background == first.task.is_background
        pieces = turn.first.end - turn.first.task.next
        for batch in turn.batches[1:]:
            joined = batch[0].task
            assert joined.next_chunks(pieces) == turn.first.task.next_chunks(pieces)
            assert joined.is_background == turn.first.task.is_background


@given(TASKS, TICKETS, SLOTS)
def test_first_answers_come_before_joined_reads(
    tasks: list[SchedulableTask], tickets: list[int], slots: EngineSlots
) -> None:
    """Questions are joined once all tasks are answered, if they read one stream, for a second."""
    all_answered = all(task.is_background or task.has_answer for task in tasks)
    for turn in plan(tasks, tickets, slots):
        if len(turn.batches) > 1:
            assert all_answered
            firsts = [batch[0] for batch in turn.batches]
            streams = {SCAN_STREAMS.get(first.task.question) for first in firsts}
            assert streams == {"cpu"}
            assert len({first.task.question for first in firsts}) == len(firsts)
            seconds = sum(first.task.expected_seconds(first.end) for first in firsts)
            assert seconds <= MAX_RUN_SECONDS


@given(TASKS, TICKETS, SLOTS)
def test_planning_changes_nothing(
    tasks: list[SchedulableTask], tickets: list[int], slots: EngineSlots
) -> None:
    scheduler = schedule(tasks, tickets)
    plans = [plan_turns(tasks, scheduler, slots, scan_streams=SCAN_STREAMS) for _ in range(2)]
    assert plans[0] == plans[1]


@given(TASKS, TICKETS, st.data())
def test_shortened_turn_is_part_of_the_turn(
    tasks: list[SchedulableTask], tickets: list[int], data: st.DataObject
) -> None:
    tasks = [replace(task, needs_engine=False) for task in tasks]
    for turn in plan(tasks, tickets, EngineSlots(free=0, concurrency=1)):
        first = turn.first
        if first.end > first.task.next:
            end = data.draw(st.integers(first.task.next + 1, first.end))
            shortened = shorten_turn(turn, end, tasks)
            assert shortened.first == PlannedTask(first.task, end)
            if len(turn.charges) < MAX_TASKS_PER_QUERY:
                assert shortened.charges.keys() <= turn.charges.keys()


@given(st.lists(st.integers(1, 20), min_size=2, max_size=5), st.booleans())
def test_shares_converge_to_tickets(tickets: list[int], is_joined: bool) -> None:
    """Over many turns on one engine, whether or not the questions are read in one scan."""
    pieces = tuple(Piece(number, number, number + 1) for number in reversed(range(4000)))
    tasks = {}
    scheduler: StrideScheduler[UUID] = StrideScheduler()
    for number, count in enumerate(tickets):
        task = SchedulableTask(
            id=UUID(int=number),
            event=UUID(int=number),
            event_ts=4000,
            question=number,
            needs_engine=True,
            is_background=False,
            created_at=CREATED,
            pieces=pieces,
            next=0,
            has_answer=True,
            tries=0,
            statistics=TaskStatistics(query_seconds_per_piece=0.001),
        )
        tasks[task.id] = task
        scheduler.join(task.id, count)
    streams = dict.fromkeys(range(len(tickets)), "cpu") if is_joined else {}
    slots = EngineSlots(free=1, concurrency=1)
    received: Counter[UUID] = Counter()
    for _ in range(30 * sum(tickets) // min(tickets)):
        for turn in plan_turns(list(tasks.values()), scheduler, slots, scan_streams=streams):
            scheduler.charge_pieces(turn.charges)
            for part in parts_of(turn):
                received[part.task.id] += part.end - part.task.next
                tasks[part.task.id] = replace(part.task, next=part.end % 3000)
    for number, count in enumerate(tickets):
        share = received.total() * count / sum(tickets)
        assert abs(received[UUID(int=number)] - share) <= max(0.1 * share, 3)
