"""Formats of times as patterns of their parts, in RE2's syntax. No I/O.

A format is text with the directives of `strptime`, or one of the names in `NAMED_FORMATS`. A year
that it leaves out follows from the clock.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

ISO = "iso"
"""ISO 8601: extended, basic and week dates, with or without an offset."""

SYSLOG_TIMES = tuple(
    f"%b %d{year} %H:%M:%S{fraction}{zone}"
    for zone in ("", " %Z")
    for year in ("", " %Y")
    for fraction in ("", ".%f")
)
"""Times of RFC 3164, and those with a year, a fraction or a zone, as some systems write them."""

APACHE_TIMES = ("%d/%b/%Y:%H:%M:%S %z", "%d/%b/%Y:%H:%M:%S.%f %z")
"""Times of access logs, some with a fraction (`%{msec_frac}t` of Apache)."""

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")

_MONTH_NAMES = f"(?i:{'|'.join(MONTHS)})"
_HOURS_AND_MINUTES = "[+-](?:[01]?[0-9]|2[0-3])(?::?[0-5][0-9])?"
_OFFSET = f"(?:Z|UTC|GMT|(?:UTC|GMT)?{_HOURS_AND_MINUTES})"
MAIL_ZONES = {
    "UT": 0,
    **{f"{zone}ST": -hours for zone, hours in zip("ECMP", range(5, 9), strict=True)},
    **{f"{zone}DT": 1 - hours for zone, hours in zip("ECMP", range(5, 9), strict=True)},
}
"""Offsets in hours of the zones that RFC 2822 names (section 4.3)."""
_MAIL_ZONE = "@"  # the directive of a zone in mails
_DAY_NAMES = "(?i:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)(?:day|sday|nesday|rsday|urday)?)"
# By directive: the name of a part, and its pattern; without a name its text does not count.
_DIRECTIVES: dict[str, tuple[str | None, str]] = {
    "Y": ("year", "[0-9]{4}"),
    "y": ("short_year", "[0-9]{2}"),
    "m": ("month", "[0-9]{1,2}"),
    "b": ("month_name", _MONTH_NAMES),
    "B": ("month_name", f"{_MONTH_NAMES}[A-Za-z]*"),
    "d": ("day", " ?[0-9]{1,2}"),
    "e": ("day", " ?[0-9]{1,2}"),
    "H": ("hour", "[0-9]{1,2}"),
    "I": ("hour", "[0-9]{1,2}"),
    "p": ("half", "[AaPp][Mm]"),
    "M": ("minute", "[0-9]{2}"),
    "S": ("second", "[0-9]{2}"),
    "f": ("fraction", "[0-9]{1,9}"),
    "z": ("offset", _OFFSET),
    "Z": ("zone_name", "(?:Z|[A-Z]{3,5})"),
    _MAIL_ZONE: ("offset", f"(?:{_OFFSET}|{'|'.join(MAIL_ZONES)})"),
    "a": (None, _DAY_NAMES),
    "A": (None, _DAY_NAMES),
    "%": (None, "%"),
}
NAMED_FORMATS: dict[str, tuple[str, ...]] = {
    "rfc2822": tuple(
        f"{day}%d %b %Y {time} %{_MAIL_ZONE}"
        for time in ("%H:%M:%S", "%H:%M")
        for day in ("%a, ", "")
    ),
    "apache": APACHE_TIMES,
    "syslog": SYSLOG_TIMES,
}
"""By name, the formats that it stands for."""

# After an offset, mail and browsers write what the zone is called.
_ZONE_COMMENT = r"(?: +\([^()]*\))?"
_SHORTHANDS = {"%T": "%H:%M:%S", "%F": "%Y-%m-%d", "%R": "%H:%M", "%D": "%m/%d/%y"}


@dataclass(frozen=True)
class TimeFormat:
    """One format. `parts`: the names of its parts, which are the groups of `pattern`."""

    text: str
    pattern: str
    parts: frozenset[str]

    @property
    def has_year(self) -> bool:
        """Whether times have a year."""
        return bool(self.parts & {"year", "short_year"})


@lru_cache(maxsize=1024)
def compile_time_format(text: str) -> TimeFormat:
    """The format of a text with directives. Raises `ValueError` for an unknown or incomplete one."""
    directives = text
    for shorthand, expanded in _SHORTHANDS.items():
        directives = directives.replace(shorthand, expanded)
    pattern = ""
    parts: list[str] = []
    for literal, directive in re.findall(r"([^%]+)|%(.?)", directives):
        if literal:
            pattern += re.sub(r"(?:\\ |\s)+", " +", re.escape(literal))
            continue
        if directive not in _DIRECTIVES:
            directive_names = ", ".join(f"%{name}" for name in _DIRECTIVES if name != _MAIL_ZONE)
            raise ValueError(
                f"unknown directive '%{directive}' of a time format: use {directive_names}"
            )
        part, part_pattern = _DIRECTIVES[directive]
        if part is not None and part in parts:
            raise ValueError(f"time format {text!r} has %{directive} twice")
        if part is not None:
            parts.append(part)
        pattern += part_pattern if part is None else f"(?P<{part}>{part_pattern})"
        if part == "offset":
            pattern += _ZONE_COMMENT
    if "day" not in parts or not {"month", "month_name"} & set(parts):
        raise ValueError(f"time format {text!r} has no month and day: use %m or %b, and %d")
    if "half" in parts and "hour" not in parts:
        raise ValueError(f"time format {text!r} has %p without an hour")
    return TimeFormat(text, f"^{pattern}$", frozenset(parts))


def expand_time_format(text: str) -> tuple[str, ...]:
    """The formats that a declared one stands for. Raises `ValueError`."""
    if text == ISO:
        return (ISO,)
    formats = NAMED_FORMATS.get(text, (text,))
    for directives in formats:
        if "%" not in directives:
            names = ", ".join((ISO, *NAMED_FORMATS))
            raise ValueError(f"time format {text!r} has no directive such as %Y: or use {names}")
        compile_time_format(directives)
    return formats
