"""When a streaming query runs: without input it is paused, since its triggers cost CPU.

No I/O; the clock is an argument.
"""

from collections.abc import Callable

# Seconds without a batch after which a query without unread input is paused. A pause costs a start
# of the query (some 0.1 s) when input returns.
_QUIET_TIME = 5.0
# Seconds after which a paused query runs for a quiet time even without a sign of input: Spark may
# find input that the cheap check does not see.
_MAX_PAUSE = 300.0


class QueryPause:
    """Decides whether one query runs. Times are seconds of a monotonic clock."""

    def __init__(self, now: float) -> None:
        self.is_paused = False
        self._changed_at = now  # the start of the quiet time or of the pause

    def record_batch(self, now: float) -> None:
        """Record that the query handled a batch: the quiet time starts again."""
        self._changed_at = now

    def update(self, now: float, has_unread: Callable[[], bool]) -> bool:
        """Decide anew; returns whether the query is to be started or stopped.

        `has_unread`: whether there may be input that the query has not handled. It is called in
        a pause, and once per quiet time otherwise.
        """
        elapsed = now - self._changed_at
        if self.is_paused:
            if elapsed < _MAX_PAUSE and not has_unread():
                return False
        elif elapsed < _QUIET_TIME:
            return False
        elif has_unread():
            self._changed_at = now
            return False
        self.is_paused = not self.is_paused
        self._changed_at = now
        return True
