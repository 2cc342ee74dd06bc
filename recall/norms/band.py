"""The band of a norm over time: for each hour around an event, what is usual then. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from archiver.time_range import TimeRange
from archiver.times import Micros
from recall.history_ranges import HOUR, constant_offsets
from recall.norms.cycles import Times, find_cycles, to_local
from recall.norms.exclusions import choose_exclusions
from recall.norms.model import AlertSpan, NormSpec, Season
from recall.norms.position import MIN_CYCLES, Band, Values, find_band


@dataclass(frozen=True)
class BandPiece:
    """What is usual from `start` to `end`, of so many cycles."""

    start: Micros
    end: Micros
    band: Band
    cycles: int


def compute_band(
    spec: NormSpec,
    season: Season,
    event_ts: Micros,
    shown: TimeRange,
    times: Times,
    values: Values,
    alerts: Sequence[AlertSpan] = (),
) -> list[BandPiece]:
    """The band of each hour of a range of time, by the clock of the zone, as was known at an event.

    `season`: that of the answer. `times`, `values`: of the rows of the event's key; those from the
    event on do not count. An hour with too few cycles has no piece.
    """
    counts = (times < event_ts) & ~np.isnan(values)
    times, values = times[counts], values[counts]
    local = to_local(spec.zone, times)
    pieces = []
    for hour in list_hours(season, spec.zone, shown):
        assert hour.start is not None and hour.end is not None
        middle = event_ts if season == "none" else (hour.start + hour.end) // 2
        cycles = find_cycles(season, spec.zone, times, local, middle)
        rows, numbers = values[cycles.in_season], cycles.numbers[cycles.in_season]
        exclusions = choose_exclusions(
            alerts, spec.exclude, times[cycles.in_season], numbers, event_ts, spec.span
        )
        rows, numbers = rows[~exclusions.rows], numbers[~exclusions.rows]
        count = len(np.unique(numbers))
        if count >= MIN_CYCLES:
            pieces.append(BandPiece(hour.start, hour.end, find_band(rows, numbers), count))
    return pieces


def list_hours(season: Season, zone: str, shown: TimeRange) -> list[TimeRange]:
    """The hours of a range by the clock of a zone, cut at its ends; without a season all of it."""
    assert shown.start is not None and shown.end is not None
    if season == "none":
        return [shown]
    hours = []
    for part, offset in constant_offsets(zone, shown):
        assert part.start is not None and part.end is not None
        start = part.start
        while start < part.end:
            end = min(part.end, (start + offset) // HOUR * HOUR + HOUR - offset)
            hours.append(TimeRange(start, end))
            start = end
    return hours
