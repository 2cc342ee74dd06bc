"""Records since when the oldest unread input of each stream waits."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

from archiver.clock import utc_now
from sql.archive import UnreadInputGateway

# Input that waits for less is being read: to store it would only cost writes.
_MIN_WAIT = timedelta(seconds=5)
_STORE_INTERVAL = timedelta(seconds=10)  # between writes of the same time: they show the last look


class UnreadInputRecorder:
    """Stores when the oldest unread input of each declared stream arrived.

    `find_oldest`: of a stream, in seconds since 1970; None: all is archived or set aside.
    """

    def __init__(
        self,
        gateway: UnreadInputGateway,
        streams: Sequence[str],
        find_oldest: Callable[[str], float | None],
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._gateway = gateway
        self._streams = streams
        self._find_oldest = find_oldest
        self._now = now
        self._stored: dict[str, tuple[datetime | None, datetime]] = {}
        gateway.delete_others(streams)

    def record(self) -> None:
        """Look at all streams, and store what has changed."""
        now = self._now()
        for stream in self._streams:
            arrived_at = self._find_oldest(stream)
            oldest = None if arrived_at is None else datetime.fromtimestamp(arrived_at, UTC)
            if oldest is not None and now - oldest < _MIN_WAIT:
                oldest = None
            if self._is_new(stream, oldest, now):
                self._gateway.put(stream, oldest)
                self._stored[stream] = oldest, now

    def _is_new(self, stream: str, oldest: datetime | None, now: datetime) -> bool:
        if stream not in self._stored:
            return True
        stored, stored_at = self._stored[stream]
        return oldest != stored or (oldest is not None and now - stored_at >= _STORE_INTERVAL)
