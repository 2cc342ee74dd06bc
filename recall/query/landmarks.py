"""Landmarks of windows `window(time, since('07:00', 'Europe/Rome'), step)`. No I/O.

A landmark is an instant at which a clock in a zone shows a time of the day. Queries find it by
arithmetic on a short list of runs, so that all engines use the same data of time zones.
"""

from collections.abc import Iterator
from functools import lru_cache
from math import gcd
from typing import NamedTuple

from archiver.time_range import TimeRange
from archiver.times import Micros
from recall.history_ranges import DAY, Landmark, constant_offsets

_MAX_LANDMARKS = 64  # whose runs are kept
# The clocks of a zone are known from 1970 to 2070 here: earlier and later days are as the first and
# the last one.
_KNOWN_SPAN = TimeRange(0, 36_890 * DAY)
_UNKNOWN_DAYS = 1_000_000  # before and after


class LandmarkRun(NamedTuple):
    """Landmarks 24 hours apart: `first`, `first` + 24 h, …, `days` of them. The next is `end`."""

    first: Micros
    days: int
    end: Micros


@lru_cache(_MAX_LANDMARKS)
def landmark_runs(landmark: Landmark) -> tuple[LandmarkRun, ...]:
    """All landmarks, oldest first, in as few runs as possible."""
    starts: list[tuple[Micros, int]] = []
    for first, count in _runs_of_offsets(landmark):
        if starts and starts[-1][0] + starts[-1][1] * DAY == first:
            first, count = starts[-1][0], starts[-1][1] + count
            starts.pop()
        starts.append((first, count))
    first, count = starts[0]
    starts[0] = (first - _UNKNOWN_DAYS * DAY, count + _UNKNOWN_DAYS)
    first, count = starts[-1]
    starts[-1] = (first, count + _UNKNOWN_DAYS)
    ends = [first for first, _ in starts[1:]]
    ends.append(starts[-1][0] + starts[-1][1] * DAY)
    return tuple(
        LandmarkRun(first, count, end) for (first, count), end in zip(starts, ends, strict=True)
    )


def longest_distance(landmark: Landmark) -> Micros:
    """The most time between a landmark and the next, in microseconds."""
    runs = landmark_runs(landmark)
    last_distances = [run.end - run.first - (run.days - 1) * DAY for run in runs]
    return max(DAY, *last_distances)


def alignment(landmark: Landmark, step: Micros) -> Micros:
    """The longest time of which all landmarks, and all ends of their windows, are multiples."""
    common = gcd(step, DAY)
    for run in landmark_runs(landmark):
        common = gcd(common, run.first, run.end)
    return common


def _runs_of_offsets(landmark: Landmark) -> Iterator[tuple[Micros, int]]:
    """The first landmark and the number of them, between changes of the offset from UTC.

    A landmark that the clock skips is the instant of the change, a run of its own.
    """
    # The local time that the clock has shown so far: what it shows again is no landmark.
    shown: Micros | None = None
    for segment, offset in constant_offsets(landmark.zone, _KNOWN_SPAN):
        assert segment.start is not None and segment.end is not None
        start, end = segment.start + offset, segment.end + offset
        low = start if shown is None else shown
        first_day = -((landmark.time_of_day - low) // DAY)
        day_after = -((landmark.time_of_day - end) // DAY)
        skipped_until = -((landmark.time_of_day - start) // DAY)
        if first_day < min(skipped_until, day_after):
            yield segment.start, 1
            first_day = skipped_until
        if first_day < day_after:
            yield first_day * DAY + landmark.time_of_day - offset, day_after - first_day
        shown = max(low, end)
