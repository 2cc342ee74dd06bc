"""Fixed intervals of time as SQL writes them. Pure."""

from datetime import timedelta

from archiver.times import MAX_DURATION

_UNITS = {
    name: timedelta(**{name + "s": 1})
    for name in ("microsecond", "millisecond", "second", "minute", "hour", "day", "week")
}


def parse_interval(text: str) -> timedelta:
    """A fixed interval as Spark writes it: `5 minutes`, `1 hour 30 minutes`. Raises `ValueError`."""
    words = text.lower().removeprefix("interval ").split()
    total = timedelta(0)
    for count, unit in zip(words[::2], words[1::2], strict=False):
        length = _UNITS.get(unit.removesuffix("s"))
        if length is None or not count.removeprefix("-").isdigit():
            raise ValueError(f"{text!r} is not a fixed interval like '5 minutes'")
        if len(count) > 12 or (total := total + int(count) * length) > MAX_DURATION:
            raise ValueError(f"{text!r} is longer than 100 years")
    if not words or len(words) % 2:
        raise ValueError(f"{text!r} is not a fixed interval like '5 minutes'")
    return total
