"""A monotonic clock for durations. All processes of a machine read the same value."""

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def seconds_since_boot() -> float:
    """Seconds since the machine was started; includes suspended time where the system counts it."""
    return time.clock_gettime(_CLOCK)
