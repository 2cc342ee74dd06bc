"""The load of the machine, as the system reports it."""

from typing import Any, NamedTuple

import psutil
import pytest

from recall.worker import load
from recall.worker.load import LoadMonitor


class LinuxTimes(NamedTuple):
    """What psutil reports on Linux, in seconds."""

    user: float
    nice: float = 0.5
    system: float = 0.1
    idle: float = 10.0
    iowait: float = 0.05
    irq: float = 0.0
    softirq: float = 0.01
    steal: float = 0.0
    guest: float = 5.0
    guest_nice: float = 5.0


class MacTimes(NamedTuple):
    """What psutil reports on macOS, in seconds."""

    user: float
    nice: float = 0.5
    system: float = 0.1
    idle: float = 10.0


class FakeProcesses:
    """In place of the gateway: no live process runs."""

    def __init__(self, _: Any) -> None:
        pass

    def live_heartbeat_age(self) -> None:
        return None


@pytest.mark.parametrize("kind", [LinuxTimes, MacTimes])
def test_concurrency_follows_processes_that_are_not_niced(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    readings = [
        kind(user=1.0),
        kind(user=2.0),  # 1 s of 1 s
        kind(user=2.0, nice=1.5),  # 0 s of 1 s
        kind(user=2.8, nice=1.5, idle=10.2),  # 0.8 s of 1 s
    ]
    monkeypatch.setattr(psutil, "cpu_times", iter(readings).__next__)
    monkeypatch.setattr(load, "ProcessGateway", FakeProcesses)
    monitor = LoadMonitor(None, 1, 4)  # type: ignore[arg-type]
    assert [monitor.update_concurrency() for _ in range(3)] == [3, 4, 4]
