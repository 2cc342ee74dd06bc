"""Times as their stream declares them: numbers in a unit, and texts in formats and a time zone."""

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from archiver.clock import utc_now
from archiver.delta import ARROW_TYPES
from archiver.errors import InvalidValue
from archiver.formats import ISO, TimeReading, compile_time_format, expand_time_format
from archiver.ingest.decoding.invalid_value import abbreviate
from archiver.ingest.decoding.records import MAX_DETAIL_LENGTH
from archiver.ingest.decoding.time_advice import advise_number, advise_text
from archiver.ingest.decoding.time_texts import LocalTimes, ParsedTimes, parse_time_texts
from archiver.times import Micros, to_micros

# Bounds of event times: leaves room for time arithmetic without overflow.
MIN_EVENT_TIME = -2208988800  # 1900-01-01T00:00:00Z, in seconds since 1970
END_OF_EVENT_TIME = 253402300800  # 10000-01-01T00:00:00Z, exclusive, in seconds since 1970

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_UNIT_NAMES = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_MAX_INT64 = 2**63 - 1
_INTEGER = r"^-?[0-9]{1,18}$"
# What Python does not read of ISO 8601, such as 24:00 and days of the year, and what logs write
# besides: "+2", "+0200" after a blank, "UTC+2:00", leap seconds, and after an offset the name of
# the zone: "[Europe/Rome]" (RFC 9557), "CET" and readings of Go's clocks.
_ISO_LIKE = re.compile(
    r"(?P<date>[0-9]{4}-(?:[0-9]{2}-[0-9]{2}|[0-9]{3}|W[0-9]{2}-[1-7])|[0-9]{7,8})[Tt ]"
    r"(?P<hour>[0-9]{2}):?(?P<minute>[0-9]{2})(?::?(?P<second>[0-9]{2})(?:[.,](?P<fraction>[0-9]+))?)?"
    r"(?: ?(?P<utc>UTC|GMT|[Zz]))?"
    r"(?: ?(?P<sign>[+\-\u2212])(?P<hours>[0-9]{1,2})(?::?(?P<minutes>[0-9]{2}))?"
    r"(?: [A-Z]{2,5}| [+-][0-9]{2,4})?(?: m=[+-][0-9.]+)?)?"
    r"(?:(?P<annotations>\[[^\[\]]*\])+)?"
)
# A time in JSON of .NET, in milliseconds; an offset after it does not change the instant.
_JSON_DATE = re.compile(r"/Date\((?P<milliseconds>-?[0-9]{1,15})(?:[+-][0-9]{4})?\)/")
_ORDINAL_DATE = re.compile(r"([0-9]{4})-?([0-9]{3})")
_WITH_ZONE_NAME = re.compile(r"(?P<time>.*[0-9]) ?(?P<name>[A-Z]{3,5})")


class TimeReader:
    """Reads the values of one timestamp column, value by value or all at once.

    `column`: its name, if it is the event time of the stream: what would read an invalid value is
    then advised. `clock`: tells the years that formats leave out, None: the process's clock;
    `future`: how far a time may be after it, in microseconds.
    """

    def __init__(
        self,
        reading: TimeReading,
        *,
        column: str | None = None,
        clock: Micros | None = None,
        future: Micros = 0,
    ) -> None:
        self._reading = reading
        self._column = column
        self._clock = clock
        self._future = future
        self._formats = [text for name in reading.formats for text in expand_time_format(name)]

    @cached_property
    def _local_times(self) -> LocalTimes:
        return LocalTimes(self._reading.zone, self._reading.ambiguous, self._reading.missing)

    @cached_property
    def _newest(self) -> Micros:
        """No time without a year is after this one."""
        clock = to_micros(utc_now()) if self._clock is None else self._clock
        return clock + self._future

    @property
    def reads_exact_integers(self) -> bool:
        """Whether integers are to be read as such, not as floats."""
        return self._reading.unit is not None

    def read_array(self, values: pa.Array) -> pa.Array | None:
        """Texts or numbers as timestamps; None or `ArrowInvalid`: to be read one by one."""
        if pa.types.is_string(values.type):
            return self._read_texts(values)
        if values.null_count:
            return None
        if pa.types.is_integer(values.type):
            return self._read_integers(values.to_numpy())
        return self._read_floats(values.to_numpy())

    def read_values(self, values: Sequence[Any]) -> tuple[pa.Array, dict[int, str]]:
        """Values as timestamps, and the errors by position, where the timestamp is null."""
        micros: list[Micros | None] = [None] * len(values)
        errors: dict[int, str] = {}
        formatted = self._read_formatted(values)
        for position, value in enumerate(values):
            if value is None:
                continue
            try:
                result = formatted.get(position)
                if isinstance(result, str):
                    raise InvalidValue(result)
                micros[position] = self.read_value(value) if result is None else result
            except (ValueError, OverflowError) as error:
                errors[position] = str(error)[:MAX_DETAIL_LENGTH]
        return pa.array(micros, ARROW_TYPES["timestamp"]), errors

    def read_value(self, value: Any) -> Micros:
        """A number, or a text that is not in a declared format. Raises `InvalidValue`."""
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self._read_number(value)
        if not isinstance(value, str):
            raise InvalidValue(f"{abbreviate(value)} is not a timestamp")
        text = value.strip()
        if self._reading.unit is not None:
            number = _to_number(text)
            if number is not None:
                return self._read_number(number)
        if self._formats and ISO not in self._formats:
            formats = ", ".join(map(repr, self._reading.formats))
            raise InvalidValue(f"{abbreviate(value)} is not in the time format {formats}")
        moment = parse_iso_time(text) or self._read_named_zone(text, value)
        if moment is None:
            advice = advise_text(self._column, text) if self._column else ""
            raise InvalidValue(
                f"{abbreviate(value)} is not a timestamp such as 2026-01-31T12:00:00Z{advice}"
            )
        if moment.tzinfo is None:
            moment = self._local_times.to_utc(moment, value)
        return _check_range(to_micros(moment), value)

    def _read_named_zone(self, text: str, value: str) -> datetime | None:
        """A time with an abbreviation of the declared zone. Raises `InvalidValue`."""
        match = _WITH_ZONE_NAME.fullmatch(text)
        local = parse_iso_time(match["time"]) if match is not None else None
        if match is None or local is None or local.tzinfo is not None:
            return None
        instant = self._local_times.to_utc_named(local, match["name"])
        if isinstance(instant, str):
            raise InvalidValue(f"{abbreviate(value)} {instant}")
        return instant

    def _read_formatted(self, values: Sequence[Any]) -> dict[int, Micros | str]:
        """The times of texts in declared formats by position, or why they are none."""
        positions = [index for index, value in enumerate(values) if isinstance(value, str)]
        read: dict[int, Micros | str] = {}
        for text_format in self._formats:
            if text_format == ISO or not positions:
                continue
            texts = pa.array([values[index].strip() for index in positions], pa.string())
            times = self._parse_texts(texts, text_format)
            instants = self._local_times.to_instants(times)
            micros, problems = instants.micros.tolist(), instants.problems
            for row, index in enumerate(positions):
                if times.is_valid[row]:
                    problem = problems.get(row)
                    read[index] = micros[row] if problem is None else problem
            positions = [index for index in positions if index not in read]
        for index, result in read.items():
            if isinstance(result, int) and not _is_in_range(result):
                read[index] = f"{abbreviate(values[index])} is not between the years 1900 and 9999"
            elif isinstance(result, str):
                read[index] = f"{abbreviate(values[index])} {result}"
        return read

    def _parse_texts(self, texts: pa.Array, text_format: str) -> ParsedTimes:
        time_format = compile_time_format(text_format)
        return parse_time_texts(texts, time_format, self._newest, self._reading.zone)

    def _read_number(self, value: int | float | Decimal) -> Micros:
        unit = self._reading.unit or "s"
        per_second = _UNITS_PER_SECOND[unit]
        limits = (MIN_EVENT_TIME * per_second, END_OF_EVENT_TIME * per_second)
        if not math.isfinite(value) or not limits[0] <= value < limits[1]:
            advice = ""
            if self._column is not None:
                advice = advise_number(self._column, float(value))
            raise InvalidValue(
                f"{abbreviate(value)} {_UNIT_NAMES[unit]} since 1970 is not between the years 1900 "
                f"and 9999{advice}"
            )
        if per_second > 1_000_000:
            divisor = per_second // 1_000_000
            return value // divisor if isinstance(value, int) else round(value / divisor)
        return round(value * (1_000_000 // per_second))

    def _read_integers(self, values: npt.NDArray[np.int64]) -> pa.Array | None:
        per_second = _UNITS_PER_SECOND[self._reading.unit or "s"]
        last = min(END_OF_EVENT_TIME * per_second - 1, _MAX_INT64)
        if not ((values >= max(MIN_EVENT_TIME * per_second, -_MAX_INT64)) & (values <= last)).all():
            return None
        if per_second > 1_000_000:
            micros = values // (per_second // 1_000_000)
        else:
            micros = values * (1_000_000 // per_second)
        return pa.array(micros, pa.int64()).cast(ARROW_TYPES["timestamp"])

    def _read_floats(self, values: npt.NDArray[np.float64]) -> pa.Array | None:
        per_second = _UNITS_PER_SECOND[self._reading.unit or "s"]
        if per_second > 1_000_000:
            return None
        factor = 1_000_000 // per_second
        # Beyond this, products of a whole number as float64 and as integer may differ.
        limit = min(END_OF_EVENT_TIME * per_second, 2**53 / factor)
        if not ((values >= MIN_EVENT_TIME * per_second) & (values <= limit)).all():
            return None
        micros = np.rint(values * factor)
        return pa.array(micros.astype(np.int64)).cast(ARROW_TYPES["timestamp"])

    def _read_texts(self, texts: pa.Array) -> pa.Array | None:
        has_unit = self._reading.unit is not None and not texts.null_count
        if has_unit and pc.all(pc.match_substring_regex(texts, _INTEGER)).as_py():
            return self._read_integers(texts.cast(pa.int64()).to_numpy())
        if not self._formats or self._formats[0] == ISO:
            return self._read_iso_texts(texts)
        for text_format in self._formats:
            if text_format == ISO:
                continue
            times = self._parse_texts(texts, text_format)
            if not times.is_valid.any():
                continue
            if not times.is_valid.all():
                return None
            instants = self._local_times.to_instants(times)
            if instants.problems:
                return None
            return _if_in_range(pa.array(instants.micros).cast(ARROW_TYPES["timestamp"]))
        return None

    def _read_iso_texts(self, texts: pa.Array) -> pa.Array | None:
        try:
            moments = pc.cast(texts, ARROW_TYPES["timestamp"])
        except pa.ArrowInvalid:  # without an offset
            local = pc.cast(texts, pa.timestamp("us"))
            if self._reading.zone == "UTC":
                moments = pc.assume_timezone(local, "UTC")
            else:
                if local.null_count:
                    return None
                localized = self._local_times.to_utc_array(local.cast(pa.int64()).to_numpy())
                if localized.problems:
                    return None
                moments = pa.array(localized.micros).cast(ARROW_TYPES["timestamp"])
        return _if_in_range(moments)


def _if_in_range(moments: pa.Array) -> pa.Array | None:
    bounds = pc.min_max(moments.cast(pa.int64())).as_py()
    if bounds["min"] is None:
        return moments
    return moments if _is_in_range(bounds["min"]) and _is_in_range(bounds["max"]) else None


def parse_iso_time(text: str) -> datetime | None:
    """The time of a text in ISO 8601, or as logs write it besides; None: it is none."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        pass
    json_date = _JSON_DATE.fullmatch(text)
    if json_date is not None:
        with suppress(OverflowError):
            return _EPOCH + timedelta(milliseconds=int(json_date["milliseconds"]))
    match = _ISO_LIKE.fullmatch(text)
    if match is None:
        return None
    try:
        moment = datetime.fromisoformat(_to_calendar_date(match["date"]))
    except ValueError:
        return None
    time_of_day = _to_time_of_day(match)
    offset = _to_offset(match)
    if time_of_day is None or offset is None:
        return None
    moment += time_of_day
    is_local = match["utc"] is None and match["sign"] is None
    if is_local and match["annotations"] is not None:
        return None  # a zone without an offset may mean two instants
    return moment if is_local else (moment - offset).replace(tzinfo=UTC)


def _to_calendar_date(date: str) -> str:
    """A date with the number of its day in the year as one of the calendar; others unchanged."""
    match = _ORDINAL_DATE.fullmatch(date)
    if match is None:
        return date
    day = datetime.strptime(f"{match[1]} {match[2]}", "%Y %j")
    return day.date().isoformat()


def _to_time_of_day(match: re.Match[str]) -> timedelta | None:
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    if minute > 59 or second > 60 or hour > 24 or (hour == 24 and (minute or second)):
        return None
    micros = int((match["fraction"] or "")[:6].ljust(6, "0"))
    return timedelta(hours=hour, minutes=minute, seconds=second, microseconds=micros)


def _to_offset(match: re.Match[str]) -> timedelta | None:
    if match["sign"] is None:
        return timedelta()
    hours, minutes = int(match["hours"]), int(match["minutes"] or 0)
    if hours > 23 or minutes > 59:
        return None
    offset = timedelta(hours=hours, minutes=minutes)
    return offset if match["sign"] == "+" else -offset


def _to_number(text: str) -> int | Decimal | None:
    """The number that a text spells; None: it is none."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    if not number.is_finite() or abs(number.adjusted()) > 30:
        return None
    return int(number) if number == number.to_integral_value() else number


def _check_range(micros: Micros, value: object) -> Micros:
    if not _is_in_range(micros):
        raise InvalidValue(f"{abbreviate(value)} is not between the years 1900 and 9999")
    return micros


def _is_in_range(micros: Micros) -> bool:
    return MIN_EVENT_TIME * 1_000_000 <= micros < END_OF_EVENT_TIME * 1_000_000
