"""Event time inside the archive: whole microseconds since 1970-01-01T00:00:00Z, as `int` (numpy `int64`)."""

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

# The longest duration: far beyond any archive, and far below what overflows dates and SQL intervals.
LONGEST = timedelta(days=36_500)


def to_micros(moment: datetime) -> int:
    """Microseconds of an aware datetime."""
    return (moment - _EPOCH) // _MICROSECOND


def from_micros(micros: int) -> datetime:
    """The UTC datetime of a number of microseconds."""
    return _EPOCH + timedelta(microseconds=micros)


def span(duration: timedelta) -> int:
    """A duration in microseconds."""
    return duration // _MICROSECOND


def optional_micros(moment: datetime | None) -> int | None:
    """As `to_micros`, with None for None."""
    return None if moment is None else to_micros(moment)


def optional_datetime(micros: int | None) -> datetime | None:
    """As `from_micros`, with None for None."""
    return None if micros is None else from_micros(micros)
