"""What a stream would have to declare to read a time that it cannot read. No I/O."""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import product

import pyarrow as pa
import re2

from archiver.formats import compile_time_format
from archiver.ingest.decoding.time_texts import parse_time_texts

# Numbers of a unit between these seconds since 1970 are likely times: 1990 to 2100.
_LIKELY_SECONDS = (631_152_000, 4_102_444_800)
_UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_DIGIT = re.compile("[0-9]")
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_NEWEST = 4_102_444_800_000_000

_NAMED_FORMATS = (
    ("apache", "%d/%b/%Y:%H:%M:%S %z"),
    ("rfc2822", "%a, %d %b %Y %H:%M:%S %z"),
    ("syslog", "%b %d %H:%M:%S"),
)
_DATES = (
    "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d.%m.%y", "%d-%b-%Y", "%Y-%b-%d", "%d %b %Y", "%b %d, %Y",
    "%b %d %Y", "%d-%m-%Y", "%m-%d-%Y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y", "%Y-%m-%d",
)  # fmt: skip
_TIMES_OF_DAY = (
    "%H:%M:%S", "%H:%M:%S.%f", "%H:%M:%S,%f", "%H:%M:%S:%f", "%H:%M", "%I:%M:%S %p", "%I:%M %p",
    "%H.%M.%S",
)  # fmt: skip
_ZONES = ("", " %z", " %Z")
_OTHER_FORMATS = (
    "%a %b %d %H:%M:%S %Y", "%a %b %d %H:%M:%S.%f %Y", "%a %b %d %H:%M:%S %Z %Y",
    "%a %b %d %H:%M:%S %z %Y", "%a %b %d %Y %H:%M:%S %z", "%y%m%d %H:%M:%S",
    "%Y-%m-%d-%H.%M.%S.%f", "%Y-%m-%d-%H:%M:%S.%f", "%Y%m%d-%H:%M:%S:%f", "%Y%m%d-%H:%M:%S.%f",
    "%Y:%m:%d-%H:%M:%S", "%Y/%m/%d:%H:%M:%S", "%Y%m%d%H%M%S",
)  # fmt: skip


def _common_formats() -> Iterator[tuple[str, str]]:
    """Formats as they are declared, and their directives."""
    yield from _NAMED_FORMATS
    for directives in _OTHER_FORMATS:
        yield directives, directives
    for date, time, zone in product(_DATES, _TIMES_OF_DAY, _ZONES):
        yield f"{date} {time}{zone}", f"{date} {time}{zone}"
    for date in _DATES:
        yield date, date


def likely_units(value: float | Decimal) -> list[str]:
    """The units in which a number is likely a time."""
    low, high = _LIKELY_SECONDS
    units = _UNITS_PER_SECOND.items()
    return [unit for unit, per_second in units if low <= value / per_second < high]


def likely_formats(texts: Sequence[str]) -> list[str]:
    """The formats that read all of some texts, as they are declared; of equal ones the first."""
    shapes = dict.fromkeys(_DIGIT.sub("0", text.strip()) for text in texts)
    candidates: Sequence[tuple[str, str]] | None = None
    for shape in shapes:
        formats = _formats_of_shape(shape)
        candidates = [pair for pair in formats if candidates is None or pair in candidates]
        if not candidates:
            return []
    array = pa.array([text.strip() for text in texts], pa.string())
    names: dict[bytes, str] = {}
    for name, directives in candidates or ():
        times = parse_time_texts(array, compile_time_format(directives), _NEWEST, "UTC")
        if times.is_valid.all():
            names.setdefault(times.micros.tobytes(), name)
    return list(names.values())


@lru_cache(maxsize=1024)
def _formats_of_shape(shape: str) -> tuple[tuple[str, str], ...]:
    """The formats whose pattern matches a text, in which any digit may be another one."""
    formats: list[tuple[str, str]] = []
    for name, directives in _common_formats():
        if re2.search(compile_time_format(directives).pattern, shape) is not None:
            formats.append((name, directives))
    return tuple(formats)


def advise_number(column: str, value: float) -> str:
    """What to declare for a number that is out of range in seconds; empty without an idea."""
    units = likely_units(value)
    return _advise(column, f"unit: {units[0]}") if units else ""


def advise_text(column: str, text: str) -> str:
    """What to declare for a text that is not ISO 8601; empty without an idea."""
    if len(text) < 25 and _NUMBER.fullmatch(text) is not None:
        units = likely_units(Decimal(text))
        return _advise(column, f"unit: {units[0]}") if units else ""
    formats = likely_formats([text])
    if not formats:
        return ""
    if len(formats) > 1:
        listed = " or ".join(repr(name) for name in formats)
        return f": set `format` of `time: {{column: {column}, …}}` to {listed}"
    return _advise(column, f'format: "{formats[0]}"')


def _advise(column: str, option: str) -> str:
    return f": declare `time: {{column: {column}, {option}}}`"
