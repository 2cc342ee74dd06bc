from functools import partial

import pytest

from archiver.periodic import Periodic, Schedule, Timer


class FakeClock:
    """A clock that is advanced by the test."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def test_timer_is_due_at_once_and_then_after_each_interval(clock: FakeClock) -> None:
    timer = Timer(2.0, clock=clock)
    assert timer.is_due()
    timer.restart()
    clock.now += 1.5
    assert not timer.is_due()
    assert timer.seconds_left() == 0.5
    clock.now += 0.5
    assert timer.is_due()
    assert timer.seconds_left() == 0.0


def test_timer_waits_before_the_first_time(clock: FakeClock) -> None:
    timer = Timer(2.0, first_after=5.0, clock=clock)
    assert not timer.is_due()
    assert timer.is_due(now=105.0)


def test_periodic_runs_once_per_interval(clock: FakeClock) -> None:
    runs: list[float] = []
    periodic = Periodic("count", 1.0, lambda: runs.append(clock.now), clock=clock)
    for _ in range(25):
        periodic.run_if_due()
        clock.now += 0.125
    assert runs == [100.0, 101.0, 102.0, 103.0]


def test_periodic_with_interval_zero_runs_each_time(clock: FakeClock) -> None:
    runs: list[float] = []
    periodic = Periodic("count", 0.0, lambda: runs.append(clock.now), clock=clock)
    periodic.run_if_due()
    periodic.run_if_due()
    assert len(runs) == 2


def test_missed_intervals_are_not_made_up_for(clock: FakeClock) -> None:
    runs: list[float] = []
    periodic = Periodic("count", 1.0, lambda: runs.append(clock.now), clock=clock)
    periodic.run_if_due()
    clock.now += 10.0
    periodic.run_if_due()
    periodic.run_if_due()
    assert runs == [100.0, 110.0]


def test_interval_counts_from_the_start_of_a_run(clock: FakeClock) -> None:
    def act() -> None:
        clock.now += 0.75

    periodic = Periodic("slow", 1.0, act, clock=clock)
    periodic.run_if_due()
    assert periodic.seconds_left() == 0.25
    periodic.restart()
    assert periodic.seconds_left() == 1.0


def test_action_can_ask_for_an_earlier_run_once(clock: FakeClock) -> None:
    runs: list[float] = []

    def act() -> None:
        runs.append(clock.now)
        if len(runs) == 1:
            periodic.run_again_after(0.5)

    periodic = Periodic("more", 60.0, act, first_after=60.0, clock=clock)
    for _ in range(1000):
        periodic.run_if_due()
        clock.now += 0.125
    assert runs == [160.0, 160.5, 220.5]


def test_error_reaches_the_caller_and_the_action_is_due_later(clock: FakeClock) -> None:
    def fail() -> None:
        raise OSError("disk")

    periodic = Periodic("fail", 1.0, fail, clock=clock)
    with pytest.raises(OSError, match="disk") as raised:
        periodic.run_if_due()
    assert raised.value.__notes__ == ["while running the periodic action 'fail'"]
    periodic.run_if_due()
    clock.now += 1.0
    with pytest.raises(OSError, match="disk"):
        periodic.run_if_due()


def test_schedule_runs_what_is_due_in_order_by_one_reading_of_the_clock(clock: FakeClock) -> None:
    runs: list[str] = []

    def act(name: str) -> None:
        runs.append(name)
        clock.now += 0.75

    periodics = [
        Periodic("each", 0.0, partial(act, "each"), clock=clock),
        Periodic("second", 1.0, partial(act, "second"), clock=clock),
        Periodic("later", 1.0, partial(act, "later"), first_after=0.5, clock=clock),
    ]
    schedule = Schedule(periodics, clock)
    schedule.run_due()  # from 100.0 to 101.5
    assert runs == ["each", "second"]
    runs.clear()
    schedule.run_due()
    assert runs == ["each", "second", "later"]


def test_schedule_stops_at_an_error(clock: FakeClock) -> None:
    runs: list[str] = []

    def fail() -> None:
        raise ValueError("no")

    schedule = Schedule(
        [
            Periodic("fail", 1.0, fail, clock=clock),
            Periodic("after", 1.0, lambda: runs.append("after"), clock=clock),
        ],
        clock,
    )
    with pytest.raises(ValueError, match="no"):
        schedule.run_due()
    assert runs == []
    schedule.run_due()
    assert runs == ["after"]
