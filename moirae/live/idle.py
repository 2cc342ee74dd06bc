"""Streams that fall silent: when they stop holding the others back. Decisions only; the clock is an argument."""

from collections.abc import Callable, Mapping
from datetime import timedelta


class Idle:
    """Remembers when each stream was last heard, by a monotonic clock in seconds."""

    def __init__(self, patience: Mapping[str, timedelta]) -> None:
        self._patience = {name: span.total_seconds() for name, span in patience.items()}
        self._heard: dict[str, float] = {}

    def heard(self, streams: set[str], now: float) -> None:
        """These streams brought something."""
        self._heard.update(dict.fromkeys(streams, now))

    def advances(
        self, watermarks: Mapping[str, int | None], now: float, unread: Callable[[str], bool]
    ) -> dict[str, int]:
        """Streams to move on, to the furthest watermark of all: silent for their patience, with nothing unread."""
        furthest = max((mark for mark in watermarks.values() if mark is not None), default=None)
        points: dict[str, int] = {}
        for name, mark in watermarks.items():
            behind = furthest is not None and (mark is None or mark < furthest)
            if now - self._heard.setdefault(name, now) < self._patience[name]:
                continue
            if behind and furthest is not None and not unread(name):
                points[name] = furthest
        return points
