"""Ranges of event time."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from archiver.times import Micros, MicrosArray


class TimeRange(NamedTuple):
    """Event times from `start` to before `end`. None: no bound."""

    start: Micros | None = None
    end: Micros | None = None

    @property
    def is_empty(self) -> bool:
        """Whether no time lies in it."""
        return self.start is not None and self.end is not None and self.start >= self.end

    def contains(self, ts: Micros) -> bool:
        """Whether a time lies in the range."""
        return (self.start is None or self.start <= ts) and (self.end is None or ts < self.end)

    def mask(self, times: MicrosArray) -> npt.NDArray[np.bool_]:
        """By time, whether it lies in the range."""
        is_inside = np.ones(len(times), dtype=np.bool_)
        if self.start is not None:
            is_inside &= times >= self.start
        if self.end is not None:
            is_inside &= times < self.end
        return is_inside

    def overlaps(self, other: "TimeRange") -> bool:
        """Whether a time lies in both ranges."""
        return not self.intersect(other).is_empty

    def overlaps_times(self, oldest: Micros, newest: Micros) -> bool:
        """Whether one of the times from `oldest` to `newest`, both included, lies in the range."""
        return (
            not self.is_empty
            and (self.start is None or self.start <= newest)
            and (self.end is None or oldest < self.end)
        )

    def intersect(self, other: "TimeRange") -> "TimeRange":
        """The times that lie in both ranges; may be empty."""
        start, end = self
        if other.start is not None and (start is None or other.start > start):
            start = other.start
        if other.end is not None and (end is None or other.end < end):
            end = other.end
        return TimeRange(start, end)

    def enclose(self, other: "TimeRange") -> "TimeRange":
        """The range from the first to the last time of both."""
        start = None
        if self.start is not None and other.start is not None:
            start = min(self.start, other.start)
        end = None
        if self.end is not None and other.end is not None:
            end = max(self.end, other.end)
        return TimeRange(start, end)

    def shift(self, *, start: Micros = 0, end: Micros = 0) -> "TimeRange":
        """The range with later (negative: earlier) bounds. A bound that is None stays so."""
        return TimeRange(
            None if self.start is None else self.start + start,
            None if self.end is None else self.end + end,
        )

    def touches(self, later: "TimeRange") -> bool:
        """Whether a range that begins at the same time or later begins before this one ends, or
        when it does.
        """
        return self.end is None or later.start is None or later.start <= self.end


ALL_TIME = TimeRange()


def merge_ranges(ranges: Iterable[TimeRange]) -> tuple[TimeRange, ...]:
    """As few ranges that cover the same time, in ascending order and apart."""
    ordered = sorted(ranges, key=_start_order)
    merged = ordered[:1]
    for time_range in ordered[1:]:
        last = merged[-1]
        if not last.touches(time_range):
            merged.append(time_range)
        elif last.end is not None and (time_range.end is None or time_range.end > last.end):
            merged[-1] = TimeRange(last.start, time_range.end)
    return tuple(merged)


def _start_order(time_range: TimeRange) -> tuple[bool, Micros]:
    return time_range.start is not None, time_range.start or 0
