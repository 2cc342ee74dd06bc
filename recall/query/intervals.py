"""Fixed time intervals in SQL text. No I/O."""

from datetime import timedelta

from archiver.times import MAX_DURATION, duration_to_micros

# Microseconds.
_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60 * 1_000_000,
    "hour": 3_600 * 1_000_000,
    "day": 86_400 * 1_000_000,
    "week": 7 * 86_400 * 1_000_000,
}
_MAX_COUNT_LENGTH = 12  # characters


def parse_interval(text: str) -> timedelta:
    """Parse a fixed interval in Spark's syntax, such as `5 minutes` or `1 hour 30 minutes`.

    Raises `ValueError` for anything else (months and years are not fixed) and above 100 years.
    """
    words = text.lower().removeprefix("interval ").split()
    malformed = ValueError(f"{text!r} is not a fixed interval like '5 minutes'")
    too_long = ValueError(f"{text!r} is longer than 100 years")
    total = 0  # microseconds
    for count, unit in zip(words[::2], words[1::2], strict=False):
        length = _UNITS.get(unit.removesuffix("s"))
        if length is None or not count.removeprefix("-").isdigit():
            raise malformed
        if len(count) > _MAX_COUNT_LENGTH:
            raise too_long
        total += int(count) * length
        if abs(total) > duration_to_micros(MAX_DURATION):
            raise too_long
    if not words or len(words) % 2:
        raise malformed
    return timedelta(microseconds=total)
