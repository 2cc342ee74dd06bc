"""How many history queries may run at once."""

import pytest

from recall.scheduling.concurrency import CpuTimes, adjust_concurrency


@pytest.mark.parametrize(
    ("urgent_share", "heartbeat_age", "expected"),
    [
        (0.99, 1.0, 1),
        (0.1, 30.0, 1),
        (0.1, 1.0, 3),
        (0.1, None, 3),
        (0.8, None, 2),
        (0.1, 5.0, 2),
    ],
)
def test_concurrency_follows_the_live_process(
    urgent_share: float, heartbeat_age: float | None, expected: int
) -> None:
    assert adjust_concurrency(2, 1, 4, urgent_share, heartbeat_age) == expected


def test_load_is_the_share_of_processes_that_are_not_niced() -> None:
    before = CpuTimes(urgent=1.0, total=16.0)
    assert CpuTimes(urgent=1.5, total=18.0).urgent_share_since(before) == 0.25


def test_no_time_between_two_readings_is_no_load() -> None:
    assert CpuTimes(1.0, 16.0).urgent_share_since(CpuTimes(1.0, 16.0)) == 0.0
