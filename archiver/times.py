"""Event time inside the archive: whole microseconds since 1970-01-01T00:00:00Z, as `int` (numpy `int64`)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import numpy.typing as npt

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

# The longest duration: far beyond any archive, and far below what overflows dates and SQL intervals.
MAX_DURATION = timedelta(days=36_500)


def to_micros(moment: datetime) -> int:
    """Microseconds of an aware datetime."""
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """The UTC datetime of a number of microseconds."""
    return _EPOCH + timedelta(microseconds=micros)


def duration_to_micros(duration: timedelta) -> int:
    """A duration in microseconds."""
    return duration // _MICROSECOND


def optional_micros(moment: datetime | None) -> int | None:
    """As `to_micros`, with None for None."""
    return None if moment is None else to_micros(moment)


def optional_datetime(micros: int | None) -> datetime | None:
    """As `from_micros`, with None for None."""
    return None if micros is None else from_micros(micros)


def micros_column(table: Any, name: str) -> npt.NDArray[np.int64]:
    """A column of whole microseconds as numpy."""
    return np.asarray(table[name].cast("int64").to_numpy())
