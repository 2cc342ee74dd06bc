"""Durations as written in configuration files: `500ms`, `10s`, `5m`, `1h30m`, `7d`, `2w`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import AfterValidator, PlainSerializer, PlainValidator, WithJsonSchema

import archiver.times
from archiver.times import DURATION_UNITS, MAX_DURATION

# Weeks are read, never written.
_UNITS = {"w": timedelta(weeks=1), **DURATION_UNITS}
# Each unit at most once, in descending order; `(?!s)` keeps `5ms` from matching as minutes.
_PATTERN_TEXT = (
    r"(?:(\d{1,9})w)?(?:(\d{1,9})d)?(?:(\d{1,9})h)?"
    r"(?:(\d{1,9})m(?!s))?(?:(\d{1,9})s)?(?:(\d{1,12})ms)?"
)
_DURATION_PATTERN = re.compile(_PATTERN_TEXT, re.ASCII)
DURATION_SCHEMA = {
    "type": "string",
    "pattern": f"^(?=.){_PATTERN_TEXT}$",
    "examples": ["10s", "5m", "1h30m"],
}
"""The JSON schema of a duration."""
_MAX_SHOWN = 40  # characters of a value in a message
_HINT = "write a number with a unit, such as 500ms, 10s, 5m, 1h30m, 7d or 2w"


def parse_duration(text: str) -> timedelta:
    """Parse a duration. Raises `ValueError` with the reason."""
    match = _DURATION_PATTERN.fullmatch(text)
    if match is None or not text:
        raise ValueError(f"{_shorten(text)} is not a duration; {_HINT}")
    # In floating point first: a timedelta of that many weeks may overflow.
    seconds = 0.0
    for digits, unit in zip(match.groups(), _UNITS.values(), strict=True):
        seconds += int(digits or 0) * unit.total_seconds()
    if seconds > MAX_DURATION.total_seconds():
        raise ValueError(f"{_shorten(text)} is longer than 100 years")
    return _sum_units(match)


def format_duration(duration: timedelta) -> str:
    """The text of a duration, which `parse_duration` reads. The largest unit is days.

    Raises `ValueError` unless it is a non-negative multiple of a millisecond.
    """
    if duration < timedelta(0) or duration % _UNITS["ms"]:
        raise ValueError(f"{duration!r} is not a non-negative number of milliseconds")
    return archiver.times.format_duration(duration)


def _sum_units(match: re.Match[str]) -> timedelta:
    pairs = zip(match.groups(), _UNITS.values(), strict=True)
    return sum((int(digits or 0) * unit for digits, unit in pairs), timedelta(0))


def _shorten(text: str) -> str:
    if len(text) > _MAX_SHOWN:
        text = text[:_MAX_SHOWN] + "…"
    return repr(text)


def _validate_duration(value: Any) -> timedelta:
    if isinstance(value, timedelta):  # set in Python, not read from a file
        return value
    if isinstance(value, str):
        return parse_duration(value)
    raise ValueError(f"a duration needs a unit; {_HINT}")


def _require_positive(span: timedelta) -> timedelta:
    if span <= timedelta(0):
        raise ValueError("must be longer than 0s")
    return span


Duration = Annotated[
    timedelta,
    PlainValidator(_validate_duration),
    PlainSerializer(format_duration, return_type=str),
    WithJsonSchema(DURATION_SCHEMA),
]
"""A duration of at least 0s, as text with a unit."""

PositiveDuration = Annotated[Duration, AfterValidator(_require_positive)]
"""A duration longer than 0s."""
