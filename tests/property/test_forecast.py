"""Forecasts of when tasks finish, and the bounds of concurrency."""

from hypothesis import given
from hypothesis import strategies as st

from recall.scheduling.concurrency import adjust_concurrency
from recall.scheduling.forecast import RemainingWork, forecast_finishes
from recall.scheduling.stride import StrideScheduler

# (tickets, pieces left) of each task.
TaskList = list[tuple[int, int]]

_TASKS = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=6)


def _remaining_work(tasks: TaskList) -> list[RemainingWork[int]]:
    return [
        RemainingWork(number, 0, tickets, pieces, 1.0)
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
    tasks = [RemainingWork("user", 0, 1, 10, 2.0), RemainingWork("background", 1, 100, 1, 2.0)]
    assert forecast_finishes(tasks, concurrency=1) == {"user": 20.0, "background": 22.0}


def test_unknown_work_counts_as_the_mean_of_the_known() -> None:
    tasks = [RemainingWork("new", 0, 1, None, None), RemainingWork("old", 1, 1, 10, 2.0)]
    assert forecast_finishes(tasks, concurrency=1) == {"new": 20.0, "old": 40.0}


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
