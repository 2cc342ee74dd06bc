"""The role of the live process, and requests to stop it."""

import threading
import time
from contextlib import AbstractContextManager
from dataclasses import asdict

from archiver.ingest.engines import IngestStats
from archiver.periodic import Clock
from moirae.errors import Stopped
from moirae.runtime import Role, record_failure


class LiveRole:
    """Heartbeats and fences of one run. `stop`: set to end it."""

    def __init__(
        self,
        role: Role,
        stop: threading.Event,
        *,
        drain: bool,
        started_at: float,
        clock: Clock = time.monotonic,
    ) -> None:
        """`started_at`: when the process started, in seconds of the clock."""
        self._role = role
        self._stop = stop
        self._state = "draining" if drain else "running"
        self._started_at = started_at
        self._clock = clock
        self._first_commit_seconds: float | None = None
        self._ingest: IngestStats | None = None

    @property
    def is_stopped(self) -> bool:
        """Whether a stop was requested."""
        return self._stop.is_set()

    def wait_for_stop(self, seconds: float) -> bool:
        """Wait for the request to stop; returns whether it came."""
        return self._stop.wait(seconds)

    def end_if_stopped(self) -> None:
        """Raise `Stopped` if requested; called between steps of the start, which take seconds."""
        if self._stop.is_set():
            self._role.heartbeat("ended")
            raise Stopped

    def fence(self) -> None:
        """Raise `Stopped` if requested, `RoleLost` if another process has taken over."""
        if self._stop.is_set():
            raise Stopped
        self._role.fence()

    def record_commit(self, ingest: IngestStats | None) -> None:
        """Note the time of the first commit and the last batch; the next heartbeat stores them."""
        self._ingest = ingest
        if self._first_commit_seconds is None:
            self._first_commit_seconds = self._clock() - self._started_at

    def heartbeat(self) -> None:
        """Store that the process is alive."""
        self._heartbeat(self._state)

    def end(self) -> None:
        """Store that the process has stopped normally."""
        self._heartbeat("ended")

    def record_failure(self) -> AbstractContextManager[None]:
        """Store an error of the block, as `runtime.record_failure` does."""
        return record_failure(self._role)

    def _heartbeat(self, state: str) -> None:
        ingest = None if self._ingest is None else asdict(self._ingest)
        self._role.heartbeat(state, self._first_commit_seconds, ingest)
