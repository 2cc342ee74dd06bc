"""Stride scheduling: shares follow tickets, no task starves, and no task gains by rejoining."""

import math
import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from recall.scheduling.run_length import SHARED_RUN_SECONDS, choose_run_length
from recall.scheduling.statistics import TaskStatistics
from recall.scheduling.stride import StrideScheduler


def serve(scheduler: StrideScheduler[str], ready: list[str], count: int) -> Counter[str]:
    """Give out `count` pieces; returns how many each task received."""
    pieces: Counter[str] = Counter()
    for _ in range(count):
        task = scheduler.next_task(ready)
        assert task is not None
        scheduler.charge_pieces({task: 1})
        pieces[task] += 1
    return pieces


def scheduler_with(tickets: list[int]) -> StrideScheduler[int]:
    scheduler: StrideScheduler[int] = StrideScheduler()
    for number, count in enumerate(tickets):
        scheduler.join(number, count)
    return scheduler


def assert_shares_follow_tickets(
    received: Counter[int], tickets: list[int], tolerance: float
) -> None:
    """Within 10 %, or a number of pieces if that is more."""
    for number, count in enumerate(tickets):
        share = received.total() * count / sum(tickets)
        assert abs(received[number] - share) <= max(0.1 * share, tolerance)


@given(st.lists(st.integers(1, 50), min_size=2, max_size=8))
def test_shares_follow_tickets(tickets: list[int]) -> None:
    scheduler = scheduler_with(tickets)
    received: Counter[int] = Counter()
    for _ in range(40 * sum(tickets) // min(tickets)):
        task = scheduler.next_task(range(len(tickets)))
        assert task is not None
        scheduler.charge_pieces({task: 1})
        received[task] += 1
    assert_shares_follow_tickets(received, tickets, tolerance=2)


def test_shares_of_one_two_and_four_are_exact() -> None:
    scheduler: StrideScheduler[str] = StrideScheduler()
    for task, tickets in (("a", 100), ("b", 200), ("c", 400)):
        scheduler.join(task, tickets)
    assert serve(scheduler, ["a", "b", "c"], 700) == {"a": 100, "b": 200, "c": 400}


@given(st.integers(0, 2**32), st.integers(1, 6))
def test_task_that_rejoins_repeatedly_gains_nothing(seed: int, count: int) -> None:
    rng = random.Random(seed)
    scheduler: StrideScheduler[str] = StrideScheduler()
    steady_tasks = [f"steady {number}" for number in range(count)]
    for task in [*steady_tasks, "restless"]:
        scheduler.join(task, 100)
    received: Counter[str] = Counter()
    for _ in range(200 * (count + 1)):
        if rng.random() < 0.5:
            scheduler.leave("restless")
            scheduler.join("restless", 100)
        received += serve(scheduler, [*steady_tasks, "restless"], 1)
    assert received["restless"] <= 200 + 2
    assert all(received[task] >= 200 - 2 for task in steady_tasks)


@given(st.lists(st.integers(1, 20), min_size=2, max_size=6), st.integers(1, 8))
def test_shares_follow_tickets_when_due_tasks_are_served_together(
    tickets: list[int], pieces: int
) -> None:
    scheduler = scheduler_with(tickets)
    tasks = range(len(tickets))
    received: Counter[int] = Counter(dict.fromkeys(tasks, 0))
    while min(received.values()) < 40 * pieces:
        task = scheduler.next_task(tasks)
        assert task is not None
        served = {task: pieces}
        for candidate in tasks:
            if candidate != task and scheduler.is_due_before(candidate, task, pieces):
                served[candidate] = pieces
        scheduler.charge_pieces(served)
        received.update(served)
    assert_shares_follow_tickets(received, tickets, tolerance=2 * pieces)


def test_task_with_few_tickets_does_not_starve() -> None:
    scheduler: StrideScheduler[str] = StrideScheduler()
    scheduler.join("many", 100_000)
    scheduler.join("one", 1)
    assert serve(scheduler, ["many", "one"], 200_100)["one"] >= 1


@given(st.lists(st.integers(1, 20), min_size=2, max_size=5), st.integers(0, 2**32))
def test_shares_follow_tickets_in_runs_of_pieces(tickets: list[int], seed: int) -> None:
    rng = random.Random(seed)
    scheduler = scheduler_with(tickets)
    received: Counter[int] = Counter()
    for _ in range(60 * sum(tickets)):
        task = scheduler.next_task(range(len(tickets)))
        assert task is not None
        pieces = rng.randint(1, 4)
        scheduler.charge_pieces({task: pieces})
        received[task] += pieces
    assert_shares_follow_tickets(received, tickets, tolerance=8)


@given(st.integers(1, 2000), st.none() | st.just(0.0) | st.floats(0.0001, 10))
def test_runs_grow_and_stay_short(pieces: int, seconds_per_piece: float | None) -> None:
    """Alone, a task of n pieces needs about log₇ n queries, none of which takes over a second."""
    pieces_read = 0
    runs: list[int] = []
    while pieces_read < pieces:
        statistics = TaskStatistics(pieces=pieces_read, query_seconds_per_piece=seconds_per_piece)
        run = choose_run_length(statistics, pieces - pieces_read)
        runs.append(run)
        pieces_read += run
    assert pieces_read == pieces
    assert runs[0] == 1
    if seconds_per_piece is None:
        assert set(runs) == {1}
        return
    assert all(run == 1 or run * seconds_per_piece <= 1.0 for run in runs)
    if seconds_per_piece * pieces <= 1.0:
        assert len(runs) <= math.log(pieces, 7) + 2


@given(st.integers(0, 2000), st.integers(1, 2000), st.floats(0, 10))
def test_runs_stay_a_small_part_while_other_questions_compete(
    pieces_read: int, pieces_left: int, seconds_per_piece: float
) -> None:
    statistics = TaskStatistics(pieces=pieces_read, query_seconds_per_piece=seconds_per_piece)
    run = choose_run_length(
        statistics, pieces_left, has_competitors=True, max_seconds=SHARED_RUN_SECONDS
    )
    assert run == 1 or (8 * run <= pieces_read and run * seconds_per_piece <= 0.1001)


def test_second_level_waits_for_the_first() -> None:
    scheduler: StrideScheduler[str] = StrideScheduler()
    scheduler.join("background", 100_000, level=1)
    scheduler.join("user", 1, level=0)
    assert serve(scheduler, ["background", "user"], 50) == {"user": 50}
    assert serve(scheduler, ["background"], 5) == {"background": 5}


def test_changed_tickets_count_from_then_on() -> None:
    scheduler: StrideScheduler[str] = StrideScheduler()
    scheduler.join("a", 100)
    scheduler.join("b", 100)
    serve(scheduler, ["a", "b"], 100)
    scheduler.join("a", 900)
    assert abs(serve(scheduler, ["a", "b"], 1000)["a"] - 900) <= 10
