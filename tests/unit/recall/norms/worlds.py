"""Synthetic worlds of one key, whose truth is known: a daily or weekly shape, noise, incidents, steps."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from recall.history_ranges import DAY, HOUR
from recall.norms import AlertSpan, NormSpec, SeasonSetting, compute_norm

WEEK = 7 * DAY
STEP = 5 * 60 * 1_000_000
ROWS_PER_DAY = DAY // STEP
# Monday, 2026-01-05, in microseconds.
START = 1_767_571_200_000_000
ZONE = "UTC"


@dataclass
class World:
    """A row every five minutes from `START` on."""

    times: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]

    def scale(self, start: int, end: int, factor: float) -> AlertSpan:
        """Multiply the values of times from start to end; the alert about it, resolved at the end."""
        inside = (self.times >= start) & (self.times < end)
        self.values[inside] *= factor
        return AlertSpan(start, end)

    def ask(
        self,
        event_ts: int,
        value: float,
        alerts: tuple[AlertSpan, ...] = (),
        season: SeasonSetting = "hour_of_day",
        span: int = 8 * WEEK,
    ) -> dict[str, object]:
        """The answer about a value at a time, over the rows before it."""
        spec = NormSpec("cpu", season, ZONE, span, "alerts")
        inside = (self.times >= event_ts - span) & (self.times < event_ts)
        return compute_norm(spec, event_ts, value, self.times[inside], self.values[inside], alerts)


def make_world(weeks: int = 10, seed: int = 1, daily: float = 30.0, weekend: float = 1.0) -> World:
    """Values around 50 with a daily sine of some amplitude; those of weekends times `weekend`."""
    rng = np.random.default_rng(seed)
    times = START + STEP * np.arange(weeks * 7 * ROWS_PER_DAY, dtype=np.int64)
    phase = 2 * np.pi * (times % DAY) / DAY
    values = 50 + daily * np.sin(phase) + rng.normal(0, 2, len(times))
    is_weekend = (times - START) // DAY % 7 >= 5
    return World(times, np.where(is_weekend, weekend * values, values))


def usual(event_ts: int, daily: float = 30.0) -> float:
    """The value that a world has at a time, without noise."""
    return float(50 + daily * np.sin(2 * np.pi * (event_ts % DAY) / DAY))


__all__ = ["DAY", "HOUR", "START", "STEP", "WEEK", "World", "make_world", "usual"]
