"""How many history queries may run at once, given the load of the machine and the live process.

The recall process is niced, so the kernel accounts for its CPU time separately. It may use the
whole machine as long as processes that are not niced leave room and the live process keeps up. No
I/O.
"""

from dataclasses import dataclass

# The share of CPU time of processes that are not niced. Above the high limit there is one query
# less, below the low one there may be one more.
_HIGH_LOAD = 0.9
_LOW_LOAD = 0.7

# The age of the live process's last heartbeat, which it sends every 2 s; same rule.
_LATE_HEARTBEAT = 6.0  # seconds
_TIMELY_HEARTBEAT = 4.0  # seconds


@dataclass(frozen=True)
class CpuTimes:
    """CPU time since boot, of processes that are not niced and in all; in any one unit."""

    urgent: float
    total: float

    def urgent_share_since(self, earlier: "CpuTimes") -> float:
        """The share of processes that are not niced since an earlier reading."""
        elapsed = self.total - earlier.total
        if elapsed <= 0:
            return 0.0
        return (self.urgent - earlier.urgent) / elapsed


def adjust_concurrency(
    current: int, minimum: int, maximum: int, urgent_share: float, heartbeat_age: float | None
) -> int:
    """The number of history queries from now on: `current`, or one more or less, within bounds.

    `heartbeat_age`: of the live process, in seconds; None: no live process runs.
    """
    age = heartbeat_age or 0.0
    if urgent_share > _HIGH_LOAD or age > _LATE_HEARTBEAT:
        current -= 1
    elif urgent_share < _LOW_LOAD and age < _TIMELY_HEARTBEAT:
        current += 1
    return min(max(current, minimum), maximum)
