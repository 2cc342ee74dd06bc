"""What a stream would have to declare to read a time that it cannot read. No I/O."""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cache
from itertools import product
from typing import Any

import pyarrow as pa
import re2

from archiver.formats import compile_time_format
from archiver.ingest.decoding.time_texts import parse_time_texts

# Numbers of a unit between these seconds since 1970 are likely times: 1990 to 2100.
_LIKELY_SECONDS = (631_152_000, 4_102_444_800)
_UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_GROUP_NAME = re.compile(r"\?P<\w+>")
_PATTERN_BYTES = 64 << 20
_MAX_SHAPES = 3  # of the times of one field
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
# Microseconds: from 1900, before which the archive has no rows, to 2100.
_OLDEST = -2_208_988_800_000_000
_NEWEST = 4_102_444_800_000_000

_NAMED_FORMATS = (
    ("apache", "%d/%b/%Y:%H:%M:%S %z"),
    ("rfc2822", "%a, %d %b %Y %H:%M:%S %z"),
    ("syslog", "%b %d %H:%M:%S"),
    ("syslog", "%b %d %H:%M:%S.%f"),
)
_DATES = (
    "%Y/%m/%d", "%Y.%m.%d", "%d.%m.%Y", "%d.%m.%y", "%d-%b-%Y", "%Y-%b-%d", "%d %b %Y", "%b %d, %Y",
    "%b %d %Y", "%d-%m-%Y", "%m-%d-%Y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y", "%Y-%m-%d",
    "%d/%b/%Y", "%d/%b/%y", "%d-%b-%y", "%Y %b %d", "%Y%m%d", "%d%b%Y", "%B %d, %Y",
    "%A, %B %d, %Y", "%a, %b %d %Y", "%y/%m/%d",
)  # fmt: skip
_TIMES_OF_DAY = (
    "%H:%M:%S", "%H:%M:%S.%f", "%H:%M:%S,%f", "%H:%M:%S:%f", "%H:%M", "%I:%M:%S %p", "%I:%M %p",
    "%I:%M:%S.%f %p", "%I:%M:%S,%f %p", "%H.%M.%S", "%I.%M.%S.%f %p", "%H-%M-%S",
)  # fmt: skip
_ZONES = ("", " %z", " %Z")
# Between date and time of day, instead of a blank; some times and zones that follow then.
_SEPARATORS = (", ", "T", "_", "-", ":", " - ")
_PLAIN_TIMES = ("%H:%M:%S", "%H:%M:%S.%f", "%I:%M:%S %p", "%H-%M-%S")
_PLAIN_ZONES = ("", "%z", " %z")
_OTHER_FORMATS = (
    "%a %b %d %H:%M:%S %Y", "%a %b %d %H:%M:%S.%f %Y", "%a %b %d %H:%M:%S %Z %Y",
    "%a %b %d %H:%M:%S %z %Y", "%a %b %d %Y %H:%M:%S %z", "%a %b %d %I:%M:%S %p %Z %Y",
    "%y%m%d %H:%M:%S", "%Y-%m-%d-%H.%M.%S.%f", "%Y:%m:%d-%H:%M:%S", "%Y%m%d%H%M%S",
    "%m-%d %H:%M:%S", "%m-%d %H:%M:%S.%f", "%d-%m %H:%M:%S", "%d-%m %H:%M:%S.%f",
    "%H:%M:%S %d.%m.%Y", "%H:%M:%S %Y-%m-%d",
)  # fmt: skip


def _common_formats() -> Iterator[tuple[str, str]]:
    """Formats as they are declared, and their directives."""
    yield from _NAMED_FORMATS
    for directives in _OTHER_FORMATS:
        yield directives, directives
    for parts in (
        *product(_DATES, (" ",), _TIMES_OF_DAY, _ZONES),
        *product(_DATES, _SEPARATORS, _PLAIN_TIMES, _PLAIN_ZONES),
    ):
        directives = "".join(parts)
        yield directives, directives
    for date in _DATES:
        yield date, date


def likely_units(value: float | Decimal) -> list[str]:
    """The units in which a number is likely a time."""
    low, high = _LIKELY_SECONDS
    units = _UNITS_PER_SECOND.items()
    return [unit for unit, per_second in units if low <= value / per_second < high]


def likely_formats(texts: Sequence[str]) -> list[str]:
    """The formats that read all of some texts, as they are declared; of equal ones the first."""
    stripped = [text.strip() for text in texts]
    formats, patterns = _compile_formats()
    indexes: set[int] | None = None
    for text in dict.fromkeys(stripped):
        matching = set(patterns.Match(text) or ())
        indexes = matching if indexes is None else indexes & matching
        if not indexes:
            return []
    array = pa.array(stripped, pa.string())
    names: dict[bytes, str] = {}
    for index in sorted(indexes or ()):
        name, directives = formats[index]
        times = parse_time_texts(array, compile_time_format(directives), _NEWEST, "UTC")
        if not times.is_valid.all():
            continue
        if times.micros.min() >= _OLDEST and times.micros.max() < _NEWEST:
            names.setdefault(times.micros.tobytes(), name)
    return list(names.values())


def likely_format_lists(texts: Sequence[str]) -> list[list[str]]:
    """Like `likely_formats`, with several formats where the texts are of a few shapes, such as with
    and without a fraction of the second. Their dates are in one order.
    """
    formats = likely_formats(texts)
    if formats:
        return [[name] for name in formats]
    groups: dict[str, list[str]] = {}
    for text in texts:
        groups.setdefault(_shape(text), []).append(text)
    if len(groups) > _MAX_SHAPES:
        return []
    named = [
        {_date_order(name): name for name in reversed(likely_formats(group))}
        for group in groups.values()
    ]
    orders = [order for order in named[0] if order and all(order in names for names in named)]
    return [list(dict.fromkeys(names[order] for names in named)) for order in orders]


def _shape(text: str) -> str:
    """A text without its digits and letters."""
    return re.sub(" +", " ", re.sub("[A-Za-z]+", "a", re.sub("[0-9]+", "0", text.strip())))


def _date_order(name: str) -> str:
    """The parts of a format's date in their order; empty for a format with a name."""
    return "".join(re.findall("%([YybBmde])", name)).lower().replace("b", "m").replace("e", "d")


@cache
def _compile_formats() -> tuple[Sequence[tuple[str, str]], Any]:
    """Formats as they are declared, with their directives; and the set of their patterns.

    A text is compared with all patterns at once, in microseconds: each refused line may have another.
    """
    options = re2.Options()
    options.max_mem = _PATTERN_BYTES
    patterns = re2.Set.SearchSet(options)
    formats = list(_common_formats())
    for _, directives in formats:
        pattern = compile_time_format(directives).pattern
        patterns.Add(_GROUP_NAME.sub("?:", pattern))
    patterns.Compile()
    return formats, patterns


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
