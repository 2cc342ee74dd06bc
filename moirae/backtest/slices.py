"""Which slices of event time a back-test evaluates, newest first. No I/O."""

from dataclasses import dataclass
from datetime import timedelta

from archiver.time_range import TimeRange
from archiver.times import Micros, duration_to_micros

DAY = duration_to_micros(timedelta(days=1))
_MAX_DAYS = 32  # of a slice
_MANY_EVENTS = 200_000  # of all rules in a slice
_VERY_SHORT = 0.1  # seconds that a slice takes
_SHORT = 1.0
_LONG = 4.0


@dataclass(frozen=True)
class BacktestRange:
    """The alerts that start in [start, end) are tested.

    `newest`: of the rows. `end` may be later, if the streams have ended. `overlap`: event time before
    the start in which events decide which alert started before.
    """

    start: Micros
    end: Micros
    newest: Micros
    overlap: Micros = 0

    def slice_before(self, upper: Micros | None, days: int) -> TimeRange | None:
        """Some days in UTC before a time, at which a slice began; the last one has the overlap.

        `upper` None: the newest slice, of one day. None is returned when there is no more.
        """
        if upper is None:
            upper, lower = self.end, min(self.newest, self.end - 1) // DAY * DAY
        elif upper <= self.start:
            return None
        else:
            lower = upper - days * DAY
        if lower <= self.start:
            return TimeRange(self.start - self.overlap, upper)
        return TimeRange(lower, upper)


def choose_days(days: int, seconds: float, events: int) -> int:
    """How many days the next slice has, after one of so many days that took some seconds.

    Each slice costs some work of its own, and its events are in memory: as columns, or as objects,
    whose slices take longer.
    """
    if events > _MANY_EVENTS or seconds > _LONG:
        return max(1, days // 2)
    if seconds < _SHORT:
        return min((8 if seconds < _VERY_SHORT else 2) * days, _MAX_DAYS)
    return days
