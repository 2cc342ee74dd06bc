"""The state in the answer of `/-/healthy`, which must come at once whatever the database does."""

import asyncio
from concurrent.futures import Future
from typing import Any

from archiver.threads import start_thread
from moirae.inspect import StateReport, collect_state
from moirae.server.pool import ConnectionPool

_TIMEOUT = 0.5  # seconds to wait for the database
_UNKNOWN: StateReport = {
    "state": "unknown",
    "problems": ["the database does not answer"],
    "restarts": [],
    "unread_input": [],
}


class StateProbe:
    """Reads the state in a thread of its own, one at a time."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._reading: Future[StateReport] | None = None

    async def read(self) -> StateReport:
        """The state; `unknown` if the database does not answer within half a second."""
        if self._reading is None or self._reading.done():
            self._reading = start_thread(self._collect, "state probe")
        try:
            reading = asyncio.shield(asyncio.wrap_future(self._reading))
            return await asyncio.wait_for(reading, _TIMEOUT)
        except Exception:  # the server runs all the same
            return _UNKNOWN

    def _collect(self) -> Any:
        with self._pool.connection() as connection:
            return collect_state(connection)
