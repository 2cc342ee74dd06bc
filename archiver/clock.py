"""Clocks: one for durations on this machine, and the time of day that machines share.

Machines that work on the same archive may have clocks that differ. What they decide about shared
rows by the time of day (which rows are ahead of it, what has expired) is decided by one clock, that
of the database.
"""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def seconds_since_boot() -> float:
    """Seconds since the machine was started; includes suspended time where the system counts it.

    It never goes back. All processes of a machine read the same value.
    """
    return time.clock_gettime(_CLOCK)


class SharedClock:
    """The time of day of another clock, from the first reading of it on; before, of this machine.

    Between two readings it continues by a clock that nobody sets. A reading says between which
    times the other clock is: only if this one is outside, it moves, to the nearest of them.
    """

    def __init__(
        self,
        local: Callable[[], float] = time.time,
        elapsed: Callable[[], float] = seconds_since_boot,
    ) -> None:
        self._local = local
        self._elapsed = elapsed
        self._offset: float | None = None  # of the other clock from `elapsed`
        self._lock = threading.Lock()

    def follow(self, read: Callable[[], float | None]) -> bool:
        """Read the other clock, in Unix seconds. False: `read` returned None."""
        before = self._elapsed()
        seconds = read()
        after = self._elapsed()
        if seconds is None:
            return False
        low, high = seconds - after, seconds - before
        with self._lock:
            offset = (low + high) / 2 if self._offset is None else self._offset
            self._offset = min(max(offset, low), high)
        return True

    def unix_seconds(self) -> float:
        """Seconds since 1970."""
        offset = self._offset
        return self._local() if offset is None else self._elapsed() + offset

    def now(self) -> datetime:
        """The time of day, in UTC."""
        return datetime.fromtimestamp(self.unix_seconds(), UTC)


SHARED_CLOCK = SharedClock()
"""The clock of this process. It follows the database if that may be on another machine."""


def unix_now() -> float:
    """Seconds since 1970 by the shared clock."""
    return SHARED_CLOCK.unix_seconds()


def utc_now() -> datetime:
    """The time of day by the shared clock, in UTC."""
    return SHARED_CLOCK.now()
