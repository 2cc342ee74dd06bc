"""Time limits charge the time in which a process could work."""

import time
from collections.abc import Iterator

import pytest

from moirae.config.settings import MAX_QUERY_SLOWDOWN
from recall.worker.work_clock import LEAST_SHARE, ProcessorTimes, WorkClock, charged_seconds


@pytest.mark.parametrize(
    ("own", "idle", "expected"),
    [
        (0.0, 8.0, 4.0),  # the machine is idle: a query that hangs is charged all of its time
        (4.0, 0.0, 4.0),
        (8.0, 0.0, 4.0),  # on several cores
        (1.0, 0.0, 1.0),  # others use the processor
        (1.0, 0.5, 1.5),
        (0.0, 0.0, 0.4),  # not at all, but it ends at some time
        (-1.0, 0.0, 0.4),  # a process of it has ended
    ],
)
def test_seconds_are_charged_in_which_the_process_could_work(
    own: float, idle: float, expected: float
) -> None:
    assert charged_seconds(4.0, own, idle) == pytest.approx(expected)


def _clock(times: list[tuple[float, float, float]]) -> WorkClock:
    """A clock that reads these times: of the clock, own and idle."""
    moments: Iterator[float] = iter([moment for moment, _, _ in times])
    readings = iter([ProcessorTimes(own, idle) for _, own, idle in times])
    return WorkClock(lambda: next(readings), lambda: next(moments))


def test_clock_goes_slower_while_the_machine_is_busy() -> None:
    clock = _clock([(100.0, 1.0, 50.0), (110.0, 1.0, 60.0), (120.0, 3.0, 60.0)])
    assert clock.now() == 10.0
    assert clock.now() == 12.0


def test_times_of_processors_are_not_read_at_each_call() -> None:
    moments = iter([0.0, 0.2, 0.4])
    readings = iter([ProcessorTimes(0.0, 0.0), ProcessorTimes(0.0, 1.0)])
    clock = WorkClock(lambda: next(readings), lambda: next(moments))
    assert clock.now(is_exact=False) == 0.0
    assert clock.now(is_exact=False) == 0.4


def test_real_clock_charges_the_work_of_this_process() -> None:
    clock = WorkClock()
    began = time.process_time()
    while time.process_time() - began < 0.3:
        pass
    assert clock.now() >= 0.2


def test_files_stay_as_long_as_the_slowest_query_may_take() -> None:
    assert MAX_QUERY_SLOWDOWN * LEAST_SHARE == 1.0
