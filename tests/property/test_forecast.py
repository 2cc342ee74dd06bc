"""When tasks will have ended, and how many queries may run at once."""

from hypothesis import given
from hypothesis import strategies as st

from recall.scheduling.concurrency import CpuTimes, adjust_concurrency
from recall.scheduling.forecast import RemainingWork, forecast_finishes
from recall.scheduling.stride import StrideScheduler

_WORK = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 40)), min_size=1, max_size=6)


def _ahead(work: list[tuple[int, int]]) -> list[RemainingWork[int]]:
    return [
        RemainingWork(number, 0, tickets, left, 1.0) for number, (tickets, left) in enumerate(work)
    ]


@given(_WORK)
def test_one_after_the_other_as_the_scheduler_would(work: list[tuple[int, int]]) -> None:
    """With one place, each task ends when stride scheduling ends it, but for a turn of each other
    task.
    """
    stride: StrideScheduler[int] = StrideScheduler()
    left = {}
    for number, (tickets, pieces) in enumerate(work):
        stride.join(number, tickets)
        left[number] = pieces
    ended, turns = {}, 0
    while left:
        number = stride.next_task(left)
        assert number is not None
        stride.charge_pieces({number: 1})
        turns, left[number] = turns + 1, left[number] - 1
        if not left[number]:
            ended[number] = turns
            stride.leave(number)
            del left[number]
    found = forecast_finishes(_ahead(work), 1)
    assert max(found.values()) == sum(pieces for _, pieces in work)
    for number, turn in ended.items():
        assert abs(found[number] - turn) <= 2 * len(work) + 1


@given(_WORK, st.integers(1, 4))
def test_more_tickets_end_sooner_and_who_goes_makes_room(
    work: list[tuple[int, int]], at_once: int
) -> None:
    before = forecast_finishes(_ahead(work), at_once)
    (tickets, left), *others = work
    faster = forecast_finishes(_ahead([(tickets * 10, left), *others]), at_once)
    assert faster[0] <= before[0] + 1e-9
    without = forecast_finishes(_ahead(work)[1:], at_once)
    assert all(without[number] <= before[number] + 1e-9 for number in without)


def test_the_second_level_comes_after_the_first() -> None:
    found = forecast_finishes(
        [RemainingWork("user", 0, 1, 10, 2.0), RemainingWork("old", 1, 100, 1, 2.0)], 1
    )
    assert found == {"user": 20.0, "old": 22.0}


@given(
    st.integers(1, 8),
    st.integers(1, 8),
    st.lists(st.tuples(st.floats(0, 1), st.none() | st.floats(0, 60)), max_size=30),
)
def test_places_stay_in_their_bounds(
    least: int, more: int, readings: list[tuple[float, float | None]]
) -> None:
    now = most = least + more
    for busy, silent in readings:
        before, now = now, adjust_concurrency(now, least, most, busy, silent)
        assert least <= now <= most and abs(now - before) <= 1


def test_places_follow_live() -> None:
    assert (
        adjust_concurrency(2, 1, 4, 0.99, 1.0) == 1 and adjust_concurrency(2, 1, 4, 0.1, 30.0) == 1
    )
    assert (
        adjust_concurrency(2, 1, 4, 0.1, 1.0) == 3 and adjust_concurrency(2, 1, 4, 0.8, None) == 2
    )


def test_what_is_niced_is_no_load() -> None:
    before = CpuTimes.parse("cpu  100 50 10 1000 5 0 1 0 0 0")
    after = CpuTimes.parse("cpu  110 140 20 1000 5 0 1 0 0 0")
    assert after.urgent_share_since(before) == 20 / 110
