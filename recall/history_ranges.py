"""Ranges of event time by local time: the same hour of the day or week, or since a time of day. No I/O.

A season is a set of local times. A time belongs to it if a clock in its zone then shows one of them.
So on a day without daylight saving's missing hour that hour has no time, and the repeated one has
two hours.
"""

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any, Literal
from zoneinfo import ZoneInfo

from archiver.time_range import TimeRange, merge_ranges
from archiver.times import Micros, check_zone, from_micros, to_micros

Recurrence = Literal["hour_of_day", "hour_of_week", "day_of_week"]

SECOND = 1_000_000  # microseconds
TIME_OF_DAY = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]", re.ASCII)
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
_LAST_DAY = datetime(9999, 12, 31, tzinfo=UTC)
DAY = 24 * HOUR
# How often a season recurs, and how long it lasts each time, in microseconds of local time.
PERIODS: Mapping[Recurrence, Micros] = {
    "hour_of_day": DAY,
    "hour_of_week": 7 * DAY,
    "day_of_week": 7 * DAY,
}
_LENGTHS: Mapping[Recurrence, Micros] = {
    "hour_of_day": HOUR,
    "hour_of_week": HOUR,
    "day_of_week": DAY,
}
# Monday, 1970-01-05: weeks begin there.
FIRST_MONDAY = 4 * DAY
_CACHED_YEARS = 10_000


@dataclass(frozen=True)
class Season:
    """The local times that recur with `same` as the time of an event, in a time zone.

    `around`: those up to so long before and after its time of the day or week, in microseconds;
    None: those in its hour or day.
    """

    same: Recurrence
    zone: str = "UTC"
    around: Micros | None = None

    def to_json(self) -> dict[str, Any]:
        """The stored form."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Season":
        """The inverse of `to_json`."""
        return cls(**stored)

    def find_ranges(self, span: TimeRange, event_ts: Micros) -> tuple[TimeRange, ...]:
        """The times of a bounded span that belong to the season of an event, oldest first, apart."""
        assert span.start is not None and span.end is not None
        period = PERIODS[self.same]
        first, length = self._first_local_times(event_ts)
        ranges: list[TimeRange] = []
        for segment, offset in constant_offsets(self.zone, span):
            assert segment.start is not None and segment.end is not None
            # The start, in local time, of the first occurrence that ends after the segment begins.
            local_start = segment.start + offset
            start = first + ((local_start - first - length) // period + 1) * period
            while start < segment.end + offset:
                occurrence = TimeRange(start - offset, start + length - offset)
                part = occurrence.intersect(segment)
                if not part.is_empty:
                    ranges.append(part)
                start += period
        return merge_ranges(ranges)

    def _first_local_times(self, event_ts: Micros) -> tuple[Micros, Micros]:
        """The start of the occurrence around an event, in local time, and its length."""
        local_ts = event_ts + offset_at(self.zone, event_ts)
        if self.around is not None:
            return local_ts - self.around, 2 * self.around
        length = _LENGTHS[self.same]
        return (local_ts - FIRST_MONDAY) // length * length + FIRST_MONDAY, length


@dataclass(frozen=True)
class Landmark:
    """The latest instant at which a clock in a zone showed a time of the day.

    `time_of_day`: microseconds since midnight. On a day on which the clock skips that time, it is the
    instant of the change; where it shows it twice, the first one.
    """

    time_of_day: Micros
    zone: str = "UTC"

    def to_json(self) -> dict[str, Any]:
        """The stored form."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Landmark":
        """The inverse of `to_json`."""
        return cls(**stored)

    def find_before(self, ts: Micros) -> Micros:
        """The latest one up to `ts`."""
        local_day = (ts + offset_at(self.zone, ts)) // DAY
        for day in (local_day, local_day - 1):
            instant = _first_instant(day * DAY + self.time_of_day, self.zone)
            if instant <= ts:
                return instant
        return _first_instant((local_day - 2) * DAY + self.time_of_day, self.zone)


def parse_landmark(time_of_day: str, zone: str) -> Landmark:
    """The landmark of a time HH:MM of a zone. Raises ValueError."""
    if TIME_OF_DAY.fullmatch(time_of_day) is None:
        raise ValueError(f"{time_of_day[:20]!r} is not a time of the day, such as '07:00'")
    hours, minutes = time_of_day.split(":")
    return Landmark((int(hours) * 60 + int(minutes)) * MINUTE, check_zone(zone))


def _first_instant(local_time: Micros, zone: str) -> Micros:
    """The first instant at which a clock shows a local time or a later one."""
    span = TimeRange(local_time - 2 * DAY, local_time + 2 * DAY)
    for segment, offset in constant_offsets(zone, span):
        assert segment.start is not None and segment.end is not None
        if local_time < segment.end + offset:
            return max(segment.start, local_time - offset)
    raise AssertionError("a clock is never two days behind")


# Offsets of time zones from UTC


def offset_at(zone: str, ts: Micros) -> Micros:
    """How far local time is ahead of UTC at a time."""
    return _offset(ZoneInfo(zone), from_micros(ts))


def constant_offsets(zone: str, span: TimeRange) -> list[tuple[TimeRange, Micros]]:
    """A bounded span in parts between which the offset from UTC changes, each with its offset."""
    assert span.start is not None and span.end is not None
    if span.is_empty:
        return []
    years = range(from_micros(span.start).year, from_micros(span.end).year + 1)
    changes = [change for year in years for change in _changes_of_year(zone, year)]
    inner = changes[bisect_right(changes, span.start) : bisect_right(changes, span.end - 1)]
    bounds = [span.start, *inner, span.end]
    return [(TimeRange(start, end), offset_at(zone, start)) for start, end in pairwise(bounds)]


@lru_cache(_CACHED_YEARS)
def _changes_of_year(zone: str, year: int) -> Sequence[Micros]:
    """The instants of a year (UTC) at which the offset changes."""
    info = ZoneInfo(zone)
    changes: list[Micros] = []
    day = datetime(year, 1, 1, tzinfo=UTC)
    while day.year == year and day < _LAST_DAY:
        next_day = day + timedelta(days=1)
        if _offset(info, day) != _offset(info, next_day):
            changes.append(_find_change(info, day, next_day))
        day = next_day
    return tuple(changes)


def _find_change(info: ZoneInfo, before: datetime, after: datetime) -> Micros:
    """The first second with the offset of `after`; there is one change between the two times."""
    offset = _offset(info, before)
    while after - before > timedelta(seconds=1):
        middle = before + timedelta(seconds=int((after - before).total_seconds()) // 2)
        if _offset(info, middle) == offset:
            before = middle
        else:
            after = middle
    return to_micros(after)


def _offset(info: ZoneInfo, moment: datetime) -> Micros:
    offset = moment.astimezone(info).utcoffset()
    assert offset is not None
    return round(offset.total_seconds() * SECOND)
