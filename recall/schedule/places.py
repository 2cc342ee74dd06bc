"""How many history queries may run at once, as the machine and the live process have room. Pure.

The recall process is niced, so that its own work is told from others' by the kernel: it may fill the machine, as long
as what is not niced leaves room and the live process keeps up.
"""

from dataclasses import dataclass

# Share of the processors that un-niced work takes, and seconds without a sign of life of live (it gives one every 2 s):
# above the first of each there is one query less, below the second of both one more.
_BUSY, _QUIET = 0.9, 0.7
_LATE, _ON_TIME = 6.0, 4.0


@dataclass(frozen=True)
class Processors:
    """Time of all processors since the start of the machine: urgent (not niced), and in all. Any unit."""

    urgent: int
    total: int

    def busy_since(self, before: "Processors") -> float:
        """The share of urgent work since another reading."""
        return (self.urgent - before.urgent) / max(self.total - before.total, 1)

    @classmethod
    def parse(cls, stat: str) -> "Processors":
        """From the first line of Linux's /proc/stat: user, nice, system, idle, waiting for disks, then others."""
        user, nice, system, idle, waits, *others = map(int, stat.split()[1:9])
        urgent = user + system + sum(others)
        return cls(urgent, urgent + nice + idle + waits)


def places(now: int, least: int, most: int, busy: float, silent: float | None) -> int:
    """The number of history queries from here on, one more or less than now, within the bounds. `busy`: share of the
    processors taken by urgent work; `silent`: seconds since live's last sign of life, None where none runs."""
    late = silent or 0.0
    if busy > _BUSY or late > _LATE:
        now -= 1
    elif busy < _QUIET and late < _ON_TIME:
        now += 1
    return min(max(now, least), most)
