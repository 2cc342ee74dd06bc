"""Which tasks are served first, how far a turn reads, and which tasks are read together."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from recall.requests import Piece
from recall.scheduling.statistics import TaskStatistics
from recall.scheduling.stride import StrideScheduler
from recall.scheduling.turn_plan import (
    MAX_TASKS_PER_QUERY,
    EngineSlots,
    SchedulableTask,
    Turn,
    plan_turns,
    shorten_turn,
)

CREATED = datetime(2026, 1, 1, tzinfo=UTC)
PIECES = (Piece(4, 40, 50), Piece(3, 30, 40), Piece(1, 10, 20), Piece(0, None, 10))
RUN = tuple(Piece(number, number, number + 1) for number in range(40, 0, -1))
ONE_SLOT = EngineSlots(free=1, concurrency=1)


def task(number: int, **changes: Any) -> SchedulableTask:
    """An answered SQL task of a question of its own that has read nothing since."""
    fresh = SchedulableTask(
        id=UUID(int=number),
        event=UUID(int=number),
        event_ts=50,
        question=number,
        needs_engine=True,
        is_background=False,
        created_at=CREATED + timedelta(seconds=number),
        pieces=PIECES,
        next=0,
        has_answer=True,
        tries=0,
    )
    return replace(fresh, **changes)


def fast(pieces: int) -> TaskStatistics:
    """Of a task that has read so many pieces in no time."""
    return TaskStatistics(pieces=pieces, query_seconds_per_piece=0.0)


def plan(
    tasks: Sequence[SchedulableTask], slots: EngineSlots = ONE_SLOT, **options: Any
) -> list[Turn]:
    """The plan if all tasks have joined with the same tickets, in order."""
    scheduler: StrideScheduler[UUID] = StrideScheduler()
    for member in tasks:
        scheduler.join(member.id, 100, int(member.is_background))
    return plan_turns(tasks, scheduler, slots, **options)


def members(turn: Turn) -> list[list[int]]:
    """The numbers of the tasks of a turn, by question."""
    return [[part.task.id.int for part in batch] for batch in turn.batches]


def test_run_ends_before_a_piece_that_is_not_adjacent() -> None:
    assert task(1).run_end(1) == 1
    assert task(1).run_end(4) == 2
    assert task(1, next=2).run_end(9) == 4


def test_first_answers_of_summaries_come_before_those_of_rows() -> None:
    rows = task(1, has_answer=False)
    summarised = task(2, has_answer=False, summarised={3, 1})
    elsewhere = task(3, has_answer=False, summarised={17})
    assert members(plan([rows, elsewhere, summarised])[0]) == [[2]]
    assert members(plan([rows, elsewhere])[0]) == [[1]]
    answered = task(4)
    assert members(plan([answered, summarised])[0]) == [[4]], "shares are kept"
    tried = replace(rows, tries=1)
    assert members(plan([summarised, tried])[0]) == [[1]]


def test_pieces_that_summaries_answer_are_not_counted() -> None:
    pieces = tuple(Piece(n, n, n + 1) for n in reversed(range(20)))
    summarised = set(range(20)) - {19, 18, 7}
    assert task(1, pieces=pieces, summarised=summarised).run_end(1) == 12, "up to the third to read"
    assert task(1, pieces=pieces, summarised=summarised).run_end(3) == 20
    assert task(1, pieces=pieces, summarised=summarised - {0}, next=13).run_end(1) == 20


def test_lone_task_reads_a_growing_run_up_to_a_gap() -> None:
    alone = task(1, next=1, statistics=fast(1))
    (turn,) = plan([alone])
    assert turn.first.end == 2
    pieces = tuple(Piece(n, n, n + 1) for n in reversed(range(20)))
    (turn,) = plan([replace(alone, pieces=pieces)])
    assert turn.first.end == 7


def test_task_that_reads_all_again_reads_twice_as_many_pieces() -> None:
    pieces = tuple(Piece(n, n, n + 1) for n in reversed(range(12)))
    ends = []
    whole = task(1, pieces=pieces, is_whole=True)
    while whole.pieces_left:
        (turn,) = plan([whole, task(2, pieces=pieces)])
        ends.append(turn.first.end)
        assert turn.charges[whole.id] == turn.first.end
        whole = replace(whole, next=turn.first.end)
    assert ends == [1, 3, 6, 12]


def test_tasks_that_read_all_again_join_only_those_that_have_read_as_far() -> None:
    pieces = tuple(Piece(n, n, n + 1) for n in reversed(range(12)))
    first, second, ahead = (
        task(n, question="q", pieces=pieces, next=done, is_whole=True)
        for n, done in ((1, 3), (2, 3), (3, 6))
    )
    (turn,) = plan([first, second, ahead])
    assert members(turn) == [[1, 2]]


def test_queries_and_comparisons_do_not_shorten_each_others_runs() -> None:
    pieces = tuple(Piece(n, n, n + 1) for n in reversed(range(20)))
    query = task(1, next=1, statistics=fast(1), pieces=pieces)
    comparison = replace(query, id=UUID(int=2), question=2, needs_engine=False)
    query_turn, comparison_turn = plan([query, comparison])
    assert (query_turn.first.end, comparison_turn.first.end) == (7, 7)


def test_run_grows_while_a_query_of_the_same_question_runs() -> None:
    pieces = tuple(Piece(n, n, n + 1) for n in reversed(range(20)))
    ready = task(1, next=1, statistics=fast(1), pieces=pieces)
    busy = replace(ready, id=UUID(int=2), is_busy=True)
    slots = EngineSlots(free=1, concurrency=2, running=1)
    (turn,) = plan([replace(ready, question=busy.question), busy], slots)
    assert turn.first.end == 7
    (turn,) = plan([replace(ready, question=3), busy], slots)
    assert turn.first.end == 2


def test_task_reads_one_piece_while_another_question_is_ready() -> None:
    first, second = (task(n, next=2, statistics=fast(2)) for n in (1, 2))
    (turn,) = plan([first, second])
    assert turn.first.end == 3


def test_free_slots_are_filled_in_order() -> None:
    turns = plan([task(1), task(2), task(3)], EngineSlots(free=2, concurrency=2))
    assert [members(turn) for turn in turns] == [[[1]], [[2]]]


def test_plan_is_made_by_the_scheduler_that_is_passed() -> None:
    class NewestFirst(StrideScheduler[UUID]):
        def next_task(self, ready: Iterable[UUID]) -> UUID | None:
            return max(ready, default=None)

    scheduler = NewestFirst()
    tasks = [task(number) for number in (1, 2, 3)]
    for member in tasks:
        scheduler.join(member.id, 100)
    turns = plan_turns(tasks, scheduler, EngineSlots(free=2, concurrency=2))
    assert [turn.first.task.id.int for turn in turns] == [3, 2]


def test_comparisons_need_no_slot_and_end_the_plan() -> None:
    """Their results decide what is next."""
    comparison, another = (task(n, needs_engine=False) for n in (1, 2))
    (turn,) = plan([task(3), comparison, another], EngineSlots(free=0, concurrency=1))
    assert members(turn) == [[1]]
    turns = plan([task(3), comparison, another], ONE_SLOT)
    assert [members(turn) for turn in turns] == [[[3]], [[1]]]


def test_tasks_with_the_most_failed_attempts_come_first() -> None:
    (turn,) = plan([task(n, tries=n % 3) for n in range(1, 6)])
    assert members(turn) == [[2]]


def test_background_suspects_wait_for_interactive_tasks() -> None:
    background = task(1, is_background=True, tries=2)
    assert members(plan([background])[0]) == [[1]]
    assert members(plan([background, task(2)])[0]) == [[2]]


def test_task_with_failed_attempts_waits_until_nothing_else_runs() -> None:
    slots = EngineSlots(free=1, concurrency=2, running=1)
    assert plan([task(1, tries=1)], slots) == []
    assert plan([task(1)], replace(slots, runs_suspect=True)) == []


def test_background_tasks_leave_the_last_slot_free() -> None:
    background = task(1, is_background=True)
    assert plan([background], EngineSlots(free=1, concurrency=2)) == []
    (turn,) = plan([background], EngineSlots(free=2, concurrency=2))
    assert turn.first.end == 2


def test_newest_background_piece_is_read_first() -> None:
    older, newest, newer = (task(n, next=n % 3, is_background=True) for n in (1, 3, 2))
    assert members(plan([older, newest, newer])[0]) == [[3]]


def test_tasks_of_one_question_wait_for_the_same_chunk_together() -> None:
    tasks = [task(n, question="same") for n in (1, 2)]
    elsewhere = task(3, question="same", next=1)
    same_event = task(4, question="same", event=UUID(int=1))
    (turn,) = plan([*tasks, elsewhere, same_event])
    assert members(turn) == [[1, 2]]


def test_leading_pieces_end_at_the_first_other_chunk() -> None:
    first = task(
        1, question="same", pieces=(Piece(4, 40, 50), Piece(3, 30, 40)), needs_engine=False
    )
    first = replace(first, next=1, statistics=fast(1))
    joined = task(
        2, question="same", pieces=(Piece(3, 30, 40), Piece(4, 40, 50)), needs_engine=False
    )
    (turn,) = plan([first, joined])
    assert [part.end for part in turn.batches[0]] == [2, 1]


def test_shortened_turn_leaves_out_tasks_of_later_pieces() -> None:
    first = task(1, question="same", is_background=True, needs_engine=False)
    later = replace(first, id=UUID(int=2), event=UUID(int=2), next=1)
    slots = EngineSlots(free=2, concurrency=2)
    (turn,) = plan([first, later], slots)
    assert members(turn) == [[1, 2]]
    assert members(shorten_turn(turn, 1, [first, later])) == [[1]]


def test_other_questions_join_a_scan_of_the_same_stream() -> None:
    streams = {1: "cpu", 2: "cpu", 3: "disk"}
    (turn,) = plan([task(1), task(2), task(3)], scan_streams=streams)
    assert members(turn) == [[1], [2]]


def test_no_question_joins_while_a_task_has_no_answer() -> None:
    streams = {1: "cpu", 2: "cpu"}
    unanswered = task(3, has_answer=False, is_busy=True)
    (turn,) = plan([task(1), task(2), unanswered], scan_streams=streams)
    assert members(turn) == [[1]]


def test_joined_questions_leave_a_share_to_each_free_engine() -> None:
    streams = dict.fromkeys(range(1, 5), "cpu")
    turns = plan(
        [task(n) for n in range(1, 5)], EngineSlots(free=2, concurrency=2), scan_streams=streams
    )
    assert [members(turn) for turn in turns] == [[[1], [2]], [[3], [4]]]


def test_joined_questions_together_take_about_a_second() -> None:
    streams = dict.fromkeys(range(1, 5), "cpu")
    slow = TaskStatistics(query_seconds_per_piece=0.4)
    tasks = [task(n, statistics=slow) for n in range(1, 5)]
    (turn,) = plan(tasks, scan_streams=streams)
    assert members(turn) == [[1], [2]]


def test_questions_that_read_in_step_have_the_runs_of_one() -> None:
    streams = {1: "cpu", 2: "cpu"}
    tasks = [task(n, pieces=RUN, next=2, statistics=fast(2)) for n in (1, 2)]
    (turn,) = plan(tasks, scan_streams=streams)
    assert members(turn) == [[1], [2]]
    assert turn.first.end == 14
    busy = replace(tasks[1], is_busy=True)
    (turn,) = plan([tasks[0], busy], EngineSlots(1, 2, running=1), scan_streams=streams)
    assert turn.first.end == 14
    slow = TaskStatistics(pieces=2, query_seconds_per_piece=0.1)
    tasks = [replace(member, statistics=slow) for member in tasks]
    (turn,) = plan(tasks, scan_streams=streams)
    assert (members(turn), turn.first.end) == ([[1], [2]], 7), "together they take a second"


@pytest.mark.parametrize(
    "other",
    [
        {"next": 3},
        {"pieces": RUN[:-1]},
        {"question": 3},
        {"tries": 1, "is_busy": True},
        {"has_answer": False, "is_busy": True},
        {"is_whole": True},
    ],
)
def test_questions_out_of_step_have_short_runs(other: dict[str, Any]) -> None:
    streams = {1: "cpu", 2: "cpu", 3: "disk"}
    first, second = (task(n, pieces=RUN, next=2, statistics=fast(2)) for n in (1, 2))
    (turn,) = plan([first, replace(second, **other)], scan_streams=streams)
    assert turn.first.end == 3


def test_questions_with_other_tickets_have_short_runs() -> None:
    tasks = [task(n, pieces=RUN, next=2, statistics=fast(2)) for n in (1, 2)]
    scheduler: StrideScheduler[UUID] = StrideScheduler()
    for member in tasks:
        scheduler.join(member.id, 100 * member.id.int)
    (turn,) = plan_turns(tasks, scheduler, ONE_SLOT, scan_streams={1: "cpu", 2: "cpu"})
    assert turn.first.end == 3


def test_tasks_per_query_are_limited() -> None:
    tasks = [task(n, question="same") for n in range(1, MAX_TASKS_PER_QUERY + 10)]
    (turn,) = plan(tasks)
    assert len(turn.charges) == MAX_TASKS_PER_QUERY
