"""To which hour and cycle of a season rows belong, by the clock of a time zone. No I/O."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from archiver.time_range import TimeRange
from archiver.times import Micros
from recall.history_ranges import DAY, FIRST_MONDAY, HOUR, constant_offsets, offset_at
from recall.norms.model import Season

Times = npt.NDArray[np.int64]

_PERIODS: dict[Season, Micros] = {"none": DAY, "hour_of_day": DAY, "hour_of_week": 7 * DAY}


@dataclass(frozen=True)
class Cycles:
    """Where rows and an event stand in a season.

    `numbers`: of the cycle of each row; `hours`: its hour within the cycle, 0 without a season.
    `event_cycle`, `event_hour`: those of the event.
    """

    numbers: Times
    hours: Times
    event_cycle: int
    event_hour: int

    @property
    def in_season(self) -> npt.NDArray[np.bool_]:
        """Which rows are of the same hour of other cycles as the event."""
        is_in: npt.NDArray[np.bool_] = self.hours == self.event_hour
        is_in &= self.numbers != self.event_cycle
        return is_in


def to_local(zone: str, times: Times) -> Times:
    """Times in microseconds since 1970 as a clock in a zone shows them."""
    if not len(times):
        return times
    span = TimeRange(int(times.min()), int(times.max()) + 1)
    parts = constant_offsets(zone, span)
    starts = np.array([part.start for part, _ in parts], np.int64)
    offsets = np.array([offset for _, offset in parts], np.int64)
    return times + offsets[np.searchsorted(starts, times, side="right") - 1]


def find_cycles(season: Season, zone: str, times: Times, local: Times, event_ts: Micros) -> Cycles:
    """The cycles of rows. `local`: their times by the clock of the zone.

    Without a season a cycle is one of the days that end at the event, all of which count.
    """
    if season == "none":
        numbers = (times - event_ts) // DAY
        return Cycles(numbers, np.zeros_like(numbers), event_cycle=0, event_hour=0)
    period = _PERIODS[season]
    moments = local - FIRST_MONDAY
    event_moment = event_ts + offset_at(zone, event_ts) - FIRST_MONDAY
    return Cycles(
        moments // period,
        moments % period // HOUR,
        event_moment // period,
        event_moment % period // HOUR,
    )
