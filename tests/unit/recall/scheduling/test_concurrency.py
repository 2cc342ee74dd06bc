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


def test_niced_processes_are_no_load() -> None:
    before = CpuTimes.parse("cpu  100 50 10 1000 5 0 1 0 0 0")
    after = CpuTimes.parse("cpu  110 140 20 1000 5 0 1 0 0 0")
    assert after.urgent_share_since(before) == 20 / 110
