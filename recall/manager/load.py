"""How busy this machine and its live process are, looked at now and then."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from psycopg import Connection

import sql
from recall.schedule.places import Processors, places

_QUERIES = sql.load("recalls")


class Load:
    """`least`, `most`: bounds of the number of history queries at once."""

    def __init__(self, connection: Connection[Any], least: int, most: int) -> None:
        self._connection = connection
        self._least = min(least, most)
        self._most = self._now = most
        self._before = _processors()

    def places(self) -> int:
        """How many history queries may run at once from here on."""
        now = _processors()
        busy = 0.0 if now is None or self._before is None else now.busy_since(self._before)
        row = self._connection.execute(_QUERIES["live_silent"]).fetchone()
        self._before = now
        self._now = places(self._now, self._least, self._most, busy, None if row is None else row[0])
        return self._now


def _processors() -> Processors | None:
    """None where the system is not Linux."""
    with suppress(OSError):
        return Processors.parse(Path("/proc/stat").read_text().partition("\n")[0])
    return None
