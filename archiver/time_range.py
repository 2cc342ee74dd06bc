"""Ranges of event time."""

from typing import NamedTuple


class TimeRange(NamedTuple):
    """From `start` to before `end`, in microseconds; `start` None: from the first row on."""

    start: int | None
    end: int

    @property
    def is_empty(self) -> bool:
        """Whether no time lies in it."""
        return self.start is not None and self.start >= self.end

    def contains(self, ts: int) -> bool:
        """Whether a time lies in the range."""
        return (self.start is None or self.start <= ts) and ts < self.end

    def overlaps(self, other: "TimeRange") -> bool:
        """Whether a time lies in both ranges."""
        return not self.intersect(other).is_empty

    def intersect(self, other: "TimeRange") -> "TimeRange":
        """The times that lie in both ranges; may be empty."""
        starts = [start for start in (self.start, other.start) if start is not None]
        return TimeRange(max(starts, default=None), min(self.end, other.end))
