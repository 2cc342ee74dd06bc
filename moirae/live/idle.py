"""Sources that fall silent: when they stop holding the others back. Decisions only; the clock is an argument."""

from collections.abc import Callable, Mapping, Set
from datetime import timedelta

Source = tuple[str, str | None]
"""A stream, or a partition of one."""

# Seconds between two questions about the same stream's files.
_ASK = 1.0


class Idle:
    """Remembers when each source was last heard, by a monotonic clock in seconds."""

    def __init__(self, patience: Mapping[str, timedelta]) -> None:
        self._patience = {name: span.total_seconds() for name, span in patience.items()}
        self._heard: dict[Source, float] = {}

    def heard(self, sources: set[Source], now: float) -> None:
        """These brought something."""
        self._heard.update(dict.fromkeys(sources, now))

    def advances(
        self, watermarks: Mapping[Source, int | None], now: float, unread: Callable[[Source], bool]
    ) -> dict[Source, int]:
        """Sources to move on, to the furthest watermark of all: silent for their patience, with nothing unread."""
        furthest = max((mark for mark in watermarks.values() if mark is not None), default=None)
        points: dict[Source, int] = {}
        for source, mark in watermarks.items():
            behind = furthest is not None and (mark is None or mark < furthest)
            if now - self._heard.setdefault(source, now) < self._patience[source[0]]:
                continue
            if behind and furthest is not None and not unread(source):
                points[source] = furthest
        return points


class UnreadFiles:
    """Whether a stream has files that are not archived yet. `done`: which of some of its files are.

    A file that is done stays so: only the others are asked about, and meanwhile count as unread.
    """

    def __init__(self, done: Callable[[str, Set[str]], Set[str]]) -> None:
        self._done = done
        self._known: dict[str, Set[str]] = {}
        self._asked: dict[str, float] = {}

    def any(self, stream: str, names: Set[str], now: float) -> bool:
        """Whether any of the files that are there now is unread."""
        known = self._known.get(stream, frozenset()) & names
        if known != names and now - self._asked.get(stream, -_ASK) >= _ASK:
            self._asked[stream] = now
            known = known | self._done(stream, names - known)
        self._known[stream] = known
        return not names <= known
