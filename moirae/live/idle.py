"""Sources that fall silent: when they stop holding the others back. Decisions only; the clock is an argument."""

from collections.abc import Callable, Mapping, Set
from datetime import timedelta

SourceKey = tuple[str, str | None]
"""A stream, or a partition of one."""

# Seconds between two questions about the same stream's files.
_CHECK_INTERVAL = 1.0


class IdleTracker:
    """Remembers when each source was last heard, by a monotonic clock in seconds."""

    def __init__(self, timeouts: Mapping[str, timedelta]) -> None:
        self._timeouts = {name: span.total_seconds() for name, span in timeouts.items()}
        self._last_active: dict[SourceKey, float] = {}

    def record_activity(self, sources: set[SourceKey], now: float) -> None:
        """These brought something."""
        self._last_active.update(dict.fromkeys(sources, now))

    def compute_advances(
        self,
        watermarks: Mapping[SourceKey, int | None],
        now: float,
        has_unread: Callable[[SourceKey], bool],
    ) -> dict[SourceKey, int]:
        """Sources to move on, to the furthest watermark of all: silent for their patience, with nothing unread."""
        furthest = max((mark for mark in watermarks.values() if mark is not None), default=None)
        points: dict[SourceKey, int] = {}
        for source, mark in watermarks.items():
            behind = furthest is not None and (mark is None or mark < furthest)
            if now - self._last_active.setdefault(source, now) < self._timeouts[source[0]]:
                continue
            if behind and furthest is not None and not has_unread(source):
                points[source] = furthest
        return points


class UnreadFiles:
    """Whether a stream has files that are not archived yet. `done`: which of some of its files are.

    A file that is done stays so: only the others are asked about, and meanwhile count as unread.
    """

    def __init__(self, find_archived: Callable[[str, Set[str]], Set[str]]) -> None:
        self._find_archived = find_archived
        self._archived: dict[str, Set[str]] = {}
        self._checked_at: dict[str, float] = {}

    def has_unread(self, stream: str, names: Set[str], now: float) -> bool:
        """Whether any of the files that are there now is unread."""
        known = self._archived.get(stream, frozenset()) & names
        if (
            known != names
            and now - self._checked_at.get(stream, -_CHECK_INTERVAL) >= _CHECK_INTERVAL
        ):
            self._checked_at[stream] = now
            known = known | self._find_archived(stream, names - known)
        self._archived[stream] = known
        return not names <= known
