"""A clock for how long something takes: nobody sets it, and all processes of a machine read the same."""

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def seconds_since_boot() -> float:
    """Seconds since the machine was started, in which it may have slept."""
    return time.clock_gettime(_CLOCK)
