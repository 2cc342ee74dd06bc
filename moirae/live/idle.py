"""Sources that fall silent: when they stop holding the others back. Decisions only; the clock is an argument."""

from collections.abc import Callable, Mapping
from datetime import timedelta

Source = tuple[str, str | None]
"""A stream, or a partition of one."""


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
