"""Times of the simulated testbed: units, sample times of hosts, conversion from and to `datetime`.

Times are integer milliseconds since the epoch; arrays hold one element per sample.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

SECOND = 1000  # milliseconds
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def draw_times(rng: np.random.Generator, span: tuple[int, int], count: int) -> Ints:
    """`count` times in ascending order: a random one in each of as many equal parts of the span."""
    start, end = span
    width = (end - start) / count
    times = start + (np.arange(count) + rng.random(count)) * width
    return times.astype(np.int64)


def sample_times(
    window: tuple[int, int], base: int, period: int, offsets: Ints
) -> tuple[Ints, Ints]:
    """All samples in the window as (host, ts), ordered by ts, then host.

    Each host, an index into `offsets`, is sampled at base + its offset + k * period.
    """
    start, end = window
    ticks = np.arange((start - base) // period - 1, (end - base) // period + 1)
    ts = base + offsets[:, None] + ticks * period
    host = np.broadcast_to(np.arange(len(offsets))[:, None], ts.shape)
    inside = (ts >= start) & (ts < end)
    host, ts = host[inside], ts[inside]
    order = np.lexsort((host, ts))
    return host[order], ts[order]


def format_times(ts: Ints, unit: Literal["s", "ms"]) -> list[str]:
    """The times in ISO 8601, in UTC; each distinct time is formatted once."""
    distinct, index = np.unique(ts, return_inverse=True)
    times = distinct.astype("datetime64[ms]")
    texts = np.datetime_as_string(times, unit=unit, timezone="UTC").tolist()
    return [texts[i] for i in index]


def to_millis(moment: datetime) -> int:
    """The first whole millisecond at or after the moment."""
    return -((EPOCH - moment) // timedelta(milliseconds=1))


def from_millis(ms: int) -> datetime:
    """The moment in UTC."""
    return EPOCH + timedelta(milliseconds=ms)
