"""A clock for time limits: it goes slower while the machine is too busy to let this process work."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import psutil

from archiver.spark import jvm_process

# A query that hangs without computing ends on a busy machine, too: later by this factor.
LEAST_SHARE = 0.1
_SAMPLE_INTERVAL = 0.25  # seconds between two readings of processor times
_CHILDREN_INTERVAL = 5.0  # seconds between two searches for the JVM's children


@dataclass(frozen=True)
class ProcessorTimes:
    """Seconds: processor time of this process and its JVM, idle time of the machine's cores."""

    own: float
    idle: float


def charged_seconds(elapsed: float, own: float, idle: float) -> float:
    """How many of some elapsed seconds count as time in which this process could work.

    All of them if a core was idle or this process used one, else what it got. `own`, `idle`: its
    processor time and the idle time of all cores in these seconds.
    """
    return min(elapsed, max(own + idle, elapsed * LEAST_SHARE, 0.0))


class WorkClock:
    """Seconds in which this process could work, since the clock was created."""

    def __init__(
        self,
        read_times: Callable[[], ProcessorTimes] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read_times = read_times or _ProcessorTimesReader().read
        self._monotonic = monotonic
        self._seconds = 0.0
        self._sampled_at = monotonic()
        self._times = self._read_times()

    def now(self, is_exact: bool = True) -> float:
        """Seconds on this clock; up to a quarter of a second behind unless `is_exact`."""
        moment = self._monotonic()
        elapsed = moment - self._sampled_at
        if is_exact or elapsed >= _SAMPLE_INTERVAL:
            times = self._read_times()
            own, idle = times.own - self._times.own, times.idle - self._times.idle
            self._seconds += charged_seconds(elapsed, own, idle)
            self._sampled_at, self._times = moment, times
        return self._seconds


class _ProcessorTimesReader:
    """Reads the times of this process, its JVM, and the workers of that."""

    def __init__(self) -> None:
        self._processes: list[psutil.Process] = [psutil.Process()]
        self._searched_at = float("-inf")
        # Of processes that have ended, so that the sum never falls.
        self._seconds_by_process: dict[psutil.Process, float] = {}

    def read(self) -> ProcessorTimes:
        self._search()
        for process in self._processes:
            with suppress(psutil.Error):  # it may have ended
                times = process.cpu_times()
                self._seconds_by_process[process] = times.user + times.system
        machine = psutil.cpu_times()
        idle = machine.idle + getattr(machine, "iowait", 0.0)
        return ProcessorTimes(sum(self._seconds_by_process.values()), idle)

    def _search(self) -> None:
        if time.monotonic() - self._searched_at < _CHILDREN_INTERVAL:
            return
        self._searched_at = time.monotonic()
        jvm = jvm_process()
        if jvm is None:
            return
        with suppress(psutil.Error):
            process = psutil.Process(jvm.pid)
            self._processes = [psutil.Process(), process, *process.children(recursive=True)]
