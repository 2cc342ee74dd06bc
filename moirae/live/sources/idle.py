"""Idle sources: when a silent source stops holding back the watermark.

No I/O; the clock is an argument.
"""

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import NamedTuple

from archiver.times import Micros


class SourceKey(NamedTuple):
    """A stream and its partition; None for a stream without partitions."""

    stream: str
    partition: str | None = None


class IdleTracker:
    """Remembers when each source was last active, in seconds of a monotonic clock.

    A source that has brought only rows ahead of the clock is active, and silent: the watermark is
    not moved by them. `timeouts`: by stream, the silence after which a source is idle.
    """

    def __init__(self, timeouts: Mapping[str, timedelta]) -> None:
        self._timeouts = {name: timeout.total_seconds() for name, timeout in timeouts.items()}
        self._last_active: dict[SourceKey, float] = {}
        self._last_not_ahead: dict[SourceKey, float] = {}

    def record_activity(self, sources: set[SourceKey], now: float) -> None:
        """Record that records of these sources were ingested."""
        self._last_active.update(dict.fromkeys(sources, now))

    def record_rows_not_ahead(self, sources: Iterable[SourceKey], now: float) -> None:
        """Record that these sources have brought rows that were not ahead of the clock."""
        self._last_not_ahead.update(dict.fromkeys(sources, now))

    def is_silent(self, source: SourceKey, now: float) -> bool:
        """Whether a source has brought no rows for its timeout, apart from rows ahead."""
        last_row = self._last_not_ahead.setdefault(source, now)
        return now - last_row >= self._timeouts[source.stream]

    def compute_advances(
        self,
        watermarks: Mapping[SourceKey, Micros | None],
        now: float,
        has_unread: Callable[[SourceKey], bool],
    ) -> dict[SourceKey, Micros]:
        """The idle sources that are behind, each with the highest watermark of all sources.

        A source is idle after its timeout, unless it has unread input.
        """
        highest = max((mark for mark in watermarks.values() if mark is not None), default=None)
        advances: dict[SourceKey, Micros] = {}
        for source, watermark in watermarks.items():
            last_active = self._last_active.setdefault(source, now)
            if now - last_active < self._timeouts[source.stream] or highest is None:
                continue
            is_behind = watermark is None or watermark < highest
            if is_behind and not has_unread(source):
                advances[source] = highest
        return advances
