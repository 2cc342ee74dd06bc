"""Event times of the archive: whole microseconds since 1970-01-01T00:00:00Z."""

from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt

# Whole microseconds: an event time, since 1970-01-01T00:00:00Z, or a duration of event time.
Micros: TypeAlias = int
MicrosArray: TypeAlias = npt.NDArray[np.int64]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

# The units of durations in configuration files, the largest first.
DURATION_UNITS = {
    "d": timedelta(days=1),
    "h": timedelta(hours=1),
    "m": timedelta(minutes=1),
    "s": timedelta(seconds=1),
    "ms": timedelta(milliseconds=1),
}

# The longest duration a user may set: beyond any archive, and below what overflows dates and SQL
# intervals.
MAX_DURATION = timedelta(days=36_500)


def check_zone(zone: str) -> str:
    """The name of a time zone. Raises ValueError if there is none of that name."""
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"unknown time zone {zone[:80]!r}, such as Europe/Rome") from None
    return zone


def to_micros(moment: datetime) -> Micros:
    """Convert a timezone-aware datetime to microseconds."""
    return (moment - _EPOCH) // _MICROSECOND


END_OF_TIME: Micros = to_micros(datetime(9999, 12, 31, tzinfo=UTC))
"""After every event time: what is complete has this watermark."""


def from_micros(micros: Micros) -> datetime:
    """Convert microseconds to a UTC datetime."""
    return _EPOCH + timedelta(0, 0, micros)  # half the time of a keyword argument


def duration_to_micros(duration: timedelta) -> Micros:
    """Convert a duration to microseconds, rounded down."""
    return duration // _MICROSECOND


def format_duration(duration: timedelta) -> str:
    """The text of a duration as in configuration files, such as `5m` or `1h30m`."""
    parts: list[str] = []
    for name, unit in DURATION_UNITS.items():
        count, duration = divmod(duration, unit)
        if count:
            parts.append(f"{count}{name}")
    return "".join(parts) or "0s"


def optional_micros(moment: datetime | None) -> Micros | None:
    """Like `to_micros`; None stays None."""
    if moment is None:
        return None
    return to_micros(moment)


def optional_datetime(micros: Micros | None) -> datetime | None:
    """Like `from_micros`; None stays None."""
    if micros is None:
        return None
    return from_micros(micros)


def micros_column(table: Any, name: str) -> MicrosArray:
    """Return a timestamp column of an Arrow table as microseconds."""
    # A view: a cast by Arrow costs 50 µs, which counts where many small files are read.
    return np.asarray(table[name].to_numpy().view(np.int64))


def format_micros(micros: Micros) -> str:
    """An event time as Spark and Delta write it: ISO 8601 with microseconds, in UTC."""
    return from_micros(micros).isoformat(timespec="microseconds").replace("+00:00", "Z")
