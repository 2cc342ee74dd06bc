"""Time intervals in Alertmanager's syntax: times of the day, weekdays, days, months, years."""

import re
from calendar import monthrange
from datetime import UTC, datetime, tzinfo
from functools import cached_property
from typing import Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BeforeValidator, Field, field_validator

from moirae.documents.types import ConfigModel, Text

_WEEKDAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_TIME = re.compile(r"(?P<hour>[01][0-9]|2[0-3]|24):(?P<minute>[0-5][0-9])", re.ASCII)
_SHORTEST_MONTH = 28  # days


class NumberRange(NamedTuple):
    """Numbers from `first` to `last`, both included."""

    first: int
    last: int


def _parse_minute(value: Any) -> Any:
    """`HH:MM` as the minute of the day. YAML reads 09:00 as text, ruamel as well."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None or (match["hour"] == "24" and match["minute"] != "00"):
        raise ValueError(f"{str(value)[:80]!r} is not a time of the day such as 09:00")
    return int(match["hour"]) * 60 + int(match["minute"])


def _make_parser(what: str, names: tuple[str, ...], first: int, low: int, high: int) -> Any:
    """A validator of a range such as `monday:friday` or `1:5`; `first`: number of the first name."""

    def parse_number(text: str) -> int:
        word = text.strip().lower()
        if word in names:
            return names.index(word) + first
        if names and first == 0:  # weekdays have names only
            raise ValueError(f"{text[:80]!r} is not a {what}")
        try:
            number = int(word)
        except ValueError:
            raise ValueError(f"{text[:80]!r} is not a {what}") from None
        if not low <= number <= high or (number == 0 and what == "day of the month"):
            raise ValueError(f"{number} is not a {what}")
        return number

    def parse(value: Any) -> Any:
        if isinstance(value, tuple):
            return value
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise ValueError(f"{str(value)[:80]!r} is not a {what} or a range such as 1:5")
        begin, colon, end = str(value).partition(":")
        numbers = NumberRange(parse_number(begin), parse_number(end if colon else begin))
        if names == _WEEKDAYS:  # friday:monday goes over the end of the week
            return numbers
        # Days from the end of the month, such as 5:-1, are those of the shortest month here.
        bounds = [_SHORTEST_MONTH + number if number < 0 else number for number in numbers]
        if numbers.first < 0 < numbers.last or bounds[0] > bounds[1]:
            raise ValueError(f"{str(value)[:80]!r}: the start is after the end")
        return numbers

    return BeforeValidator(parse, json_schema_input_type=str | int)


MinuteOfDay = Annotated[int, BeforeValidator(_parse_minute, json_schema_input_type=str)]
Weekdays = Annotated[NumberRange, _make_parser("weekday", _WEEKDAYS, 0, 0, 6)]
DaysOfMonth = Annotated[NumberRange, _make_parser("day of the month", (), 1, -31, 31)]
Months = Annotated[NumberRange, _make_parser("month", _MONTHS, 1, 1, 12)]
Years = Annotated[NumberRange, _make_parser("year", (), 1, 0, 9999)]


class TimeRangeOfDay(ConfigModel):
    """A range of times of the day."""

    start_time: MinuteOfDay = Field(description="HH:MM, included.")
    end_time: MinuteOfDay = Field(description="HH:MM, not included; 24:00 is the end of the day.")

    @field_validator("end_time")
    @classmethod
    def _validate_order(cls, value: int, info: Any) -> int:
        if value <= info.data.get("start_time", -1):
            raise ValueError("must be after start_time; use two ranges for a night")
        return value


class TimeInterval(ConfigModel):
    """One interval: all parts that are set must hold."""

    times: tuple[TimeRangeOfDay, ...] = Field(default=(), description="Times of the day.")
    weekdays: tuple[Weekdays, ...] = Field(
        default=(), description="Weekdays such as monday, monday:friday or friday:monday."
    )
    days_of_month: tuple[DaysOfMonth, ...] = Field(
        default=(), description="Days such as 1:5; -1 is the last day of the month."
    )
    months: tuple[Months, ...] = Field(default=(), description="Months by name or number.")
    years: tuple[Years, ...] = Field(default=(), description="Years such as 2026 or 2026:2028.")
    location: Text | None = Field(
        default=None, description="Time zone such as Europe/Rome; null: UTC."
    )

    @field_validator("location")
    @classmethod
    def _validate_location(cls, value: str | None) -> str | None:
        if value in (None, "Local"):
            return value
        try:
            ZoneInfo(value)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"unknown time zone {value[:80]!r}") from None
        return value

    @cached_property
    def _zone(self) -> tzinfo | None:
        """None: the zone of this machine."""
        if self.location is None:
            return UTC
        return None if self.location == "Local" else ZoneInfo(self.location)

    def contains(self, time: datetime) -> bool:
        """Whether a time, with a time zone, is inside."""
        local = time.astimezone(self._zone)
        minute = local.hour * 60 + local.minute
        return (
            _is_in_any(minute, [NumberRange(t.start_time, t.end_time - 1) for t in self.times])
            and _is_in_any((local.weekday() + 1) % 7, self.weekdays)
            and _is_in_days(local, self.days_of_month)
            and _is_in_any(local.month, self.months)
            and _is_in_any(local.year, self.years)
        )


class NamedTimeIntervals(ConfigModel):
    """Time intervals under a name that routes use."""

    name: Text = Field(description="Name that routes use.")
    time_intervals: tuple[TimeInterval, ...] = Field(
        description="Intervals; a time is inside if one of them contains it."
    )

    def contains(self, time: datetime) -> bool:
        """Whether one of the intervals contains a time."""
        return any(interval.contains(time) for interval in self.time_intervals)


def _is_in_any(number: int, ranges: Any) -> bool:
    """Whether no range is given, or one contains a number; from its start over the end, if later."""
    return not ranges or any(
        first <= number <= last or (first > last and (number >= first or number <= last))
        for first, last in ranges
    )


def _is_in_days(time: datetime, ranges: tuple[NumberRange, ...]) -> bool:
    if not ranges:
        return True
    days = monthrange(time.year, time.month)[1]
    for first, last in ranges:
        begin = days + first + 1 if first < 0 else first
        end = days + last + 1 if last < 0 else last
        if begin <= days and end >= 1 and max(begin, 1) <= time.day <= min(end, days):
            return True
    return False
