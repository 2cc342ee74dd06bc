"""Forecasts of when tasks finish, the statistics they use, and the bounds of concurrency."""

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from recall.scheduling.concurrency import adjust_concurrency
from recall.scheduling.forecast import RemainingWork, forecast_finishes
from recall.scheduling.statistics import TaskStatistics, TurnStatistics, share_query
from recall.scheduling.stride import StrideScheduler

# (tickets, pieces left) of each task.
TaskList = list[tuple[int, int]]

_TASKS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=6)


def _seconds_per_piece(seconds: float) -> TaskStatistics:
    return TaskStatistics(pieces=2, seconds=2 * seconds)


def _remaining_work(tasks: TaskList) -> list[RemainingWork[int]]:
    return [
        RemainingWork(number, 0, tickets, pieces, _seconds_per_piece(1.0))
        for number, (tickets, pieces) in enumerate(tasks)
    ]


def _simulate(tasks: TaskList) -> dict[int, int]:
    """After how many pieces in all each task finishes, by stride scheduling."""
    scheduler: StrideScheduler[int] = StrideScheduler()
    pieces_left: dict[int, int] = {}
    for number, (tickets, pieces) in enumerate(tasks):
        scheduler.join(number, tickets)
        pieces_left[number] = pieces
    finishes: dict[int, int] = {}
    total = 0
    while pieces_left:
        number = scheduler.next_task(pieces_left)
        assert number is not None
        scheduler.charge_pieces({number: 1})
        total += 1
        pieces_left[number] -= 1
        if pieces_left[number] == 0:
            finishes[number] = total
            scheduler.leave(number)
            del pieces_left[number]
    return finishes


@given(_TASKS)
def test_forecast_agrees_with_the_scheduler(tasks: TaskList) -> None:
    """One query at a time; the difference is at most about two pieces of each task."""
    forecast = forecast_finishes(_remaining_work(tasks), concurrency=1)
    assert max(forecast.values()) == sum(pieces for _, pieces in tasks)
    for number, finish in _simulate(tasks).items():
        assert abs(forecast[number] - finish) <= 2 * len(tasks) + 1


@given(_TASKS, st.integers(1, 4))
def test_more_tickets_finish_sooner_and_leaving_makes_room(
    tasks: TaskList, concurrency: int
) -> None:
    before = forecast_finishes(_remaining_work(tasks), concurrency)
    (tickets, pieces), *other_tasks = tasks
    accelerated = forecast_finishes(
        _remaining_work([(tickets * 10, pieces), *other_tasks]), concurrency
    )
    assert accelerated[0] <= before[0] + 1e-9
    after_leaving = forecast_finishes(_remaining_work(tasks)[1:], concurrency)
    assert all(after_leaving[number] <= before[number] + 1e-9 for number in after_leaving)


def test_second_level_starts_after_the_first() -> None:
    statistics = _seconds_per_piece(2.0)
    tasks = [
        RemainingWork("user", 0, 1, 10, statistics),
        RemainingWork("background", 1, 100, 1, statistics),
    ]
    assert forecast_finishes(tasks, concurrency=1) == {"user": 20.0, "background": 22.0}


def test_task_that_has_read_nothing_takes_as_long_as_the_others_on_average() -> None:
    tasks = [
        RemainingWork("new", 0, 1, 10, TaskStatistics()),
        RemainingWork("old", 1, 1, 10, _seconds_per_piece(2.0)),
    ]
    assert forecast_finishes(tasks, concurrency=1) == {"new": 20.0, "old": 40.0}


_TURNS = st.lists(
    st.builds(
        TurnStatistics,
        pieces=st.integers(0, 50),
        rows=st.integers(0, 1000),
        results=st.integers(0, 1000),
        seconds=st.integers(0, 60).map(float),
        query_seconds=st.integers(0, 60).map(float),
    ),
    max_size=10,
)


@given(_TURNS)
def test_statistics_are_the_sums_of_all_turns(turns: list[TurnStatistics]) -> None:
    """So a task that another process claims, with the stored sums, has the same forecast."""
    statistics = TaskStatistics()
    for turn in turns:
        statistics = statistics.add(turn)
    stored = TaskStatistics(
        pieces=sum(turn.pieces for turn in turns),
        rows=sum(turn.rows for turn in turns),
        results=sum(turn.results for turn in turns),
        seconds=sum(turn.seconds for turn in turns),
    )
    assert replace(statistics, query_seconds_per_piece=None) == stored
    work = [RemainingWork("task", 0, 100, 7, total) for total in (statistics, stored)]
    forecasts = [forecast_finishes([remaining], concurrency=2) for remaining in work]
    assert forecasts[0] == forecasts[1]


@given(st.floats(0, 1000), st.lists(st.integers(0, 50), min_size=1, max_size=20))
def test_shares_of_a_query_add_up_to_its_time(query_seconds: float, pieces: list[int]) -> None:
    counts = [0] * len(pieces)
    shares = share_query(query_seconds, pieces, rows=counts, results=counts)
    assert math.isclose(sum(share.seconds for share in shares), query_seconds, abs_tol=1e-9)


@given(_TURNS, st.integers(1, 100_000), st.integers(0, 10))
def test_tickets_never_rise_with_results(
    turns: list[TurnStatistics], tickets: int, tickets_per_result: int
) -> None:
    for turn in turns:
        tickets_left = max(1, tickets - turn.price(tickets_per_result, tickets))
        assert 1 <= tickets_left <= tickets
        if not turn.results:
            assert tickets_left == tickets
        tickets = tickets_left


@given(
    st.integers(1, 8),
    st.integers(1, 8),
    st.lists(st.tuples(st.floats(0, 1), st.none() | st.floats(0, 60)), max_size=30),
)
def test_concurrency_stays_in_its_bounds(
    minimum: int, margin: int, readings: list[tuple[float, float | None]]
) -> None:
    maximum = minimum + margin
    concurrency = maximum
    for urgent_share, heartbeat_age in readings:
        previous = concurrency
        concurrency = adjust_concurrency(previous, minimum, maximum, urgent_share, heartbeat_age)
        assert minimum <= concurrency <= maximum
        assert abs(concurrency - previous) <= 1
