"""How many history queries may run at once, as the machine and the live process have room. Pure.

The recall process is niced, so that its own work is told from others' by the kernel: it may fill the machine, as long
as what is not niced leaves room and the live process keeps up.
"""

from dataclasses import dataclass

# Share of the processors that un-niced work takes, and seconds without a sign of life of live (it gives one every 2 s):
# above the first of each there is one query less, below the second of both one more.
_HIGH_LOAD, _LOW_LOAD = 0.9, 0.7
_LATE_HEARTBEAT, _TIMELY_HEARTBEAT = 6.0, 4.0


@dataclass(frozen=True)
class CpuTimes:
    """Time of all processors since the start of the machine: urgent (not niced), and in all. Any unit."""

    urgent: int
    total: int

    def urgent_share_since(self, earlier: "CpuTimes") -> float:
        """The share of urgent work since another reading."""
        return (self.urgent - earlier.urgent) / max(self.total - earlier.total, 1)

    @classmethod
    def parse(cls, stat: str) -> "CpuTimes":
        """From the first line of Linux's /proc/stat: user, nice, system, idle, waiting for disks, then others."""
        user, nice, system, idle, waits, *others = map(int, stat.split()[1:9])
        urgent = user + system + sum(others)
        return cls(urgent, urgent + nice + idle + waits)


def adjust_concurrency(
    current: int, minimum: int, maximum: int, urgent_share: float, heartbeat_age: float | None
) -> int:
    """The number of history queries from here on, one more or less than now, within the bounds. `busy`: share of the
    processors taken by urgent work; `silent`: seconds since live's last sign of life, None where none runs."""
    late = heartbeat_age or 0.0
    if urgent_share > _HIGH_LOAD or late > _LATE_HEARTBEAT:
        current -= 1
    elif urgent_share < _LOW_LOAD and late < _TIMELY_HEARTBEAT:
        current += 1
    return min(max(current, minimum), maximum)
