"""The number of concurrent history queries, adjusted to the load of the machine."""

import psutil

import sql
from recall.scheduling import CpuTimes, adjust_concurrency
from sql.processes import ProcessGateway

_COUNTED_TIMES = 8  # those after it, of guests, are part of `user` and `nice`


class LoadMonitor:
    """Measures the CPU load and the delay of the live process.

    `min_queries`, `max_queries`: bounds of the number of concurrent history queries.
    """

    def __init__(self, connection: sql.Connection, min_queries: int, max_queries: int) -> None:
        self._connection = connection
        self._min_queries = min(min_queries, max_queries)
        self._max_queries = self._concurrency = max_queries
        self._last_cpu_times = _read_cpu_times()

    def update_concurrency(self) -> int:
        """Measure the load since the last call; returns how many history queries may run now."""
        cpu_times = _read_cpu_times()
        urgent_share = cpu_times.urgent_share_since(self._last_cpu_times)
        self._last_cpu_times = cpu_times
        live_silent_seconds = ProcessGateway(self._connection).live_heartbeat_age()
        self._concurrency = adjust_concurrency(
            self._concurrency,
            self._min_queries,
            self._max_queries,
            urgent_share,
            live_silent_seconds,
        )
        return self._concurrency


def _read_cpu_times() -> CpuTimes:
    times = psutil.cpu_times()
    total = sum(times[:_COUNTED_TIMES])
    return CpuTimes(total - times.nice - times.idle - getattr(times, "iowait", 0.0), total)
