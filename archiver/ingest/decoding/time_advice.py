"""What a stream would have to declare to read a time that it cannot read. No I/O."""

from decimal import Decimal

import pyarrow as pa

from archiver.formats import compile_time_format
from archiver.ingest.decoding.time_texts import parse_time_texts

# Numbers of a unit between these seconds since 1970 are likely times: 1990 to 2100.
_LIKELY_SECONDS = (631_152_000, 4_102_444_800)
_UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_NEWEST = 4_102_444_800_000_000

COMMON_FORMATS: tuple[tuple[str, str], ...] = (
    ("apache", "%d/%b/%Y:%H:%M:%S %z"),
    ("rfc2822", "%a, %d %b %Y %H:%M:%S %z"),
    ("syslog", "%b %d %H:%M:%S"),
    ("%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M:%S"),
    ("%Y/%m/%d %H:%M:%S.%f", "%Y/%m/%d %H:%M:%S.%f"),
    ("%a %b %d %H:%M:%S %Y", "%a %b %d %H:%M:%S %Y"),
    ("%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M:%S"),
    ("%d-%b-%Y %H:%M:%S", "%d-%b-%Y %H:%M:%S"),
    ("%Y.%m.%d %H:%M:%S", "%Y.%m.%d %H:%M:%S"),
    ("%y%m%d %H:%M:%S", "%y%m%d %H:%M:%S"),
    ("%Y-%m-%d-%H.%M.%S.%f", "%Y-%m-%d-%H.%M.%S.%f"),
    ("%Y%m%d-%H:%M:%S:%f", "%Y%m%d-%H:%M:%S:%f"),
    ("%d/%m/%Y %H:%M:%S", "%d/%m/%Y %H:%M:%S"),
    ("%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M:%S"),
    ("%d/%m/%Y %H:%M", "%d/%m/%Y %H:%M"),
    ("%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M"),
    ("%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %I:%M:%S %p"),
    ("%d/%m/%Y", "%d/%m/%Y"),
    ("%m/%d/%Y", "%m/%d/%Y"),
    ("%d.%m.%Y", "%d.%m.%Y"),
)
"""Formats as they are declared, and their directives."""


def likely_units(value: float | Decimal) -> list[str]:
    """The units in which a number is likely a time."""
    low, high = _LIKELY_SECONDS
    units = _UNITS_PER_SECOND.items()
    return [unit for unit, per_second in units if low <= value / per_second < high]


def likely_formats(texts: list[str]) -> list[str]:
    """The formats that read all of some texts, as they are declared."""
    array = pa.array([text.strip() for text in texts], pa.string())
    names: list[str] = []
    for name, directives in COMMON_FORMATS:
        if parse_time_texts(array, compile_time_format(directives), _NEWEST).is_valid.all():
            names.append(name)
    return names


def advise_number(column: str, value: float) -> str:
    """What to declare for a number that is out of range in seconds; empty without an idea."""
    units = likely_units(value)
    return _advise(column, f"unit: {units[0]}") if units else ""


def advise_text(column: str, text: str) -> str:
    """What to declare for a text that is not ISO 8601; empty without an idea."""
    if text.isascii() and text.lstrip("-").isdigit() and len(text) < 25:
        units = likely_units(int(text))
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
