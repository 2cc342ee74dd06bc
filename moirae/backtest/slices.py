"""Which slices of event time a back-test evaluates, newest first. No I/O."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from archiver.time_range import TimeRange
from archiver.times import Micros, duration_to_micros

DAY = duration_to_micros(timedelta(days=1))


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

    def slices(self) -> Iterator[TimeRange]:
        """Days in UTC, the newest first; the last one has the overlap."""
        upper = self.end
        lower = min(self.newest, self.end - 1) // DAY * DAY
        while lower > self.start:
            yield TimeRange(lower, upper)
            upper, lower = lower, lower - DAY
        yield TimeRange(self.start - self.overlap, upper)
