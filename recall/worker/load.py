"""How busy this machine and its live process are, looked at now and then."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from psycopg import Connection

import sql
from recall.scheduling import CpuTimes, adjust_concurrency

_QUERIES = sql.load("recalls")


class LoadMonitor:
    """`least`, `most`: bounds of the number of history queries at once."""

    def __init__(self, connection: Connection[Any], min_queries: int, max_queries: int) -> None:
        self._connection = connection
        self._min_queries = min(min_queries, max_queries)
        self._max_queries = self._concurrency = max_queries
        self._last_cpu_times = _read_cpu_times()

    def update_concurrency(self) -> int:
        """How many history queries may run at once from here on."""
        now = _read_cpu_times()
        busy = (
            0.0
            if now is None or self._last_cpu_times is None
            else now.urgent_share_since(self._last_cpu_times)
        )
        row = self._connection.execute(_QUERIES["live_silent"]).fetchone()
        self._last_cpu_times = now
        self._concurrency = adjust_concurrency(
            self._concurrency,
            self._min_queries,
            self._max_queries,
            busy,
            None if row is None else row[0],
        )
        return self._concurrency


def _read_cpu_times() -> CpuTimes | None:
    """None where the system is not Linux."""
    with suppress(OSError):
        return CpuTimes.parse(Path("/proc/stat").read_text().partition("\n")[0])
    return None
