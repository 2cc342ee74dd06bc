"""Texts of times in a format with directives, and local times of a time zone. No I/O."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from archiver.errors import InvalidValue
from archiver.formats import MAIL_ZONES, MONTHS, TimeFormat
from archiver.ingest.decoding.invalid_value import abbreviate
from archiver.times import Micros, MicrosArray, from_micros, to_micros

_MICROS_PER_SECOND = 1_000_000
_HOURS_AND_MINUTES = re.compile(r"([+-])([0-9]{1,2}?)(?::?([0-9]{2}))?$")
_HALF_OFFSETS = {"am": 0, "pm": 12}
_FIRST_YEAR_OF_CENTURY = 69  # a shorter year is one of this century
# A 29 February of a time without a year lies at most so many years back.
_MAX_YEARS_BACK = 8
_MISSING_TIME = "does not exist: clocks are put forward then"
_AMBIGUOUS_TIME = "comes twice: clocks are put back then; set `ambiguous` to earlier or later"

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ParsedTimes:
    """Times of texts in microseconds; zero where not `is_valid`. `is_local`: without an offset.

    `zone_names`: abbreviations of the zones of local times, if their format has them.
    """

    micros: MicrosArray
    is_valid: Mask
    is_local: bool
    zone_names: Sequence[str] | None = None


def parse_time_texts(
    texts: pa.Array, time_format: TimeFormat, newest: Micros, zone: str
) -> ParsedTimes:
    """The times of texts in a format; nulls are not valid.

    `newest`: of times without a year, the latest that is not after it is meant. `zone`: of times
    without an offset.
    """
    matched = pc.extract_regex(texts, time_format.pattern)
    is_valid = pc.is_valid(matched).to_numpy(zero_copy_only=False).copy()
    parts = _Parts(matched, is_valid)
    month = parts.mapped("month_name", _month) if "month_name" in time_format.parts else None
    if month is None:
        month = parts.number("month")
    day, hour = parts.number("day", 1), parts.number("hour")
    if "half" in time_format.parts:
        is_valid &= (hour >= 1) & (hour <= 12)
        hour = hour % 12 + parts.mapped("half", lambda text: _HALF_OFFSETS[text.lower()])
    minute, second = parts.number("minute"), parts.number("second")
    # 24:00:00 ends a day, and a leap second, which clocks of computers do not have, a minute.
    is_midnight = (hour == 24) & (minute == 0) & (second == 0)
    is_valid &= ((hour < 24) | is_midnight) & (minute < 60) & (second <= 60)
    seconds = hour * 3600 + minute * 60 + second
    of_day = seconds * _MICROS_PER_SECOND + parts.fraction()
    is_local = "offset" not in time_format.parts
    if not is_local:
        of_day -= parts.mapped("offset", _offset_seconds) * _MICROS_PER_SECOND
    if time_format.has_year:
        micros, is_date = _date_micros(_years(parts, time_format), month, day)
        micros += of_day
    else:
        latest = int(_to_local(np.array([newest]), zone)[0]) if is_local else newest
        micros, is_date = _latest_micros(month, day, of_day, latest)
    is_valid &= is_date
    zone_names = parts.texts("zone_name") if is_local else None
    return ParsedTimes(np.where(is_valid, micros, 0), is_valid, is_local, zone_names)


class _Parts:
    """The groups of a pattern as numbers; zero where a text does not match."""

    def __init__(self, matched: pa.StructArray, is_valid: Mask) -> None:
        self._matched = matched
        self._is_valid = is_valid
        self._names = {matched.type.field(i).name for i in range(matched.type.num_fields)}

    def number(self, name: str, default: int = 0) -> Integers:
        if name not in self._names:
            return np.full(len(self._is_valid), default, np.int64)
        texts = pc.utf8_trim_whitespace(self._texts(name, "0"))
        return np.asarray(texts.cast(pa.int64()).to_numpy(zero_copy_only=False))

    def mapped(self, name: str, function: Callable[[str], int]) -> Integers:
        """The numbers of texts, of which few differ."""
        encoded = self._texts(name, "").dictionary_encode()
        numbers = [function(text) if text else 0 for text in encoded.dictionary.to_pylist()]
        indices = encoded.indices.to_numpy(zero_copy_only=False)
        return np.asarray(np.array([*numbers, 0], np.int64)[indices])

    def texts(self, name: str) -> list[str] | None:
        return self._texts(name, "").to_pylist() if name in self._names else None

    def fraction(self) -> Integers:
        """Microseconds; further digits are cut off."""
        if "fraction" not in self._names:
            return np.zeros(len(self._is_valid), np.int64)
        digits = pc.utf8_rpad(self._texts("fraction", "0"), 6, "0")
        digits = pc.utf8_slice_codeunits(digits, 0, 6)
        return np.asarray(digits.cast(pa.int64()).to_numpy(zero_copy_only=False))

    def _texts(self, name: str, default: str) -> Any:
        return pc.if_else(self._is_valid, self._matched.field(name), default)


def _month(name: str) -> int:
    return MONTHS.index(name[:3].lower()) + 1


def _offset_seconds(text: str) -> int:
    if text in MAIL_ZONES:
        return MAIL_ZONES[text] * 3600
    offset = _HOURS_AND_MINUTES.search(text)
    if offset is None:
        return 0
    seconds = int(offset[2]) * 3600 + int(offset[3] or 0) * 60
    return -seconds if offset[1] == "-" else seconds


def _years(parts: _Parts, time_format: TimeFormat) -> Integers:
    if "year" in time_format.parts:
        return parts.number("year")
    years = parts.number("short_year")
    return np.where(years < _FIRST_YEAR_OF_CENTURY, 2000 + years, 1900 + years)


def _date_micros(year: Integers, month: Integers, day: Integers) -> tuple[MicrosArray, Mask]:
    """Midnight of dates, and which of them exist."""
    is_date = (year >= 1) & (month >= 1) & (month <= 12) & (day >= 1) & (day <= 31)
    months = np.where(is_date, (year - 1970) * 12 + month - 1, 0)
    first_days = months.astype("M8[M]").astype("M8[D]")
    days = first_days + np.where(is_date, day - 1, 0)
    is_date &= days.astype("M8[M]") == first_days.astype("M8[M]")
    return days.astype(np.int64) * 86_400 * _MICROS_PER_SECOND, is_date


def _latest_micros(
    month: Integers, day: Integers, of_day: MicrosArray, newest: Micros
) -> tuple[MicrosArray, Mask]:
    """The times without a year: of those not after `newest`, the latest that exist."""
    last_year = int(np.array(newest, "M8[us]").astype("M8[Y]").astype(np.int64)) + 1970
    micros = np.zeros(len(month), np.int64)
    is_date = np.zeros(len(month), bool)
    # Offsets may move a time of the first days of a year into the one before.
    for year in range(last_year + 1, last_year - _MAX_YEARS_BACK - 1, -1):
        candidates, exists = _date_micros(np.full(len(month), year, np.int64), month, day)
        candidates += of_day
        is_latest = ~is_date & exists & (candidates <= newest)
        micros[is_latest] = candidates[is_latest]
        is_date |= is_latest
        if is_date.all():
            break
    return micros, is_date


@dataclass(frozen=True)
class LocalizedTimes:
    """Local times as instants; `problems`: by position, why one has none."""

    micros: MicrosArray
    problems: dict[int, str]


class LocalTimes:
    """Instants of the local times of a time zone. For the options see `TimeReading`."""

    def __init__(
        self,
        zone: str,
        ambiguous: Literal["earlier", "later", "reject"],
        missing: Literal["reject", "forward"],
    ) -> None:
        self._zone_name = zone
        self._zone = ZoneInfo(zone)
        self._ambiguous = ambiguous
        self._missing = missing

    def to_utc(self, local: datetime, value: object) -> datetime:
        """The instant of one time. Raises `InvalidValue`. `value`: as the error quotes it."""
        first = local.replace(tzinfo=self._zone, fold=0)
        second = local.replace(tzinfo=self._zone, fold=1)
        if first.utcoffset() == second.utcoffset():
            return first.astimezone(UTC)
        exists = first.astimezone(UTC).astimezone(self._zone).replace(tzinfo=None) == local
        problem = self._problem(exists)
        if problem is not None:
            raise InvalidValue(f"{abbreviate(value)} {problem}")
        return (second if exists and self._ambiguous == "later" else first).astimezone(UTC)

    def to_instants(self, times: ParsedTimes) -> LocalizedTimes:
        """The instants of times that were read; what is not valid among them does not count."""
        if not times.is_local:
            return LocalizedTimes(times.micros, {})
        if times.zone_names is None:
            return self.to_utc_array(times.micros)
        micros = times.micros.copy()
        problems: dict[int, str] = {}
        for index in np.flatnonzero(times.is_valid).tolist():
            local = from_micros(int(micros[index])).replace(tzinfo=None)
            instant = self.to_utc_named(local, times.zone_names[index])
            if isinstance(instant, str):
                problems[index] = instant
            else:
                micros[index] = to_micros(instant)
        return LocalizedTimes(micros, problems)

    def to_utc_named(self, local: datetime, zone_name: str) -> datetime | str:
        """The instant of a time with an abbreviation of its zone, or why it has none."""
        if zone_name in ("Z", "UTC", "GMT"):
            return local.replace(tzinfo=UTC)
        for fold in (0, 1):
            moment = local.replace(tzinfo=self._zone, fold=fold)
            instant = moment.astimezone(UTC)
            exists = instant.astimezone(self._zone).replace(tzinfo=None) == local
            if exists and moment.tzname() == zone_name:
                return instant
        return (
            f"has the zone {zone_name}, which {self._zone_name} does not have then: set `zone` of "
            "`time` to the zone that is meant, such as Europe/Rome"
        )

    def to_utc_array(self, local: MicrosArray) -> LocalizedTimes:
        """The instants of many times in microseconds."""
        if self._zone_name == "UTC":
            return LocalizedTimes(local, {})
        texts = pa.array(local).cast(pa.timestamp("us"))
        options = {"timezone": self._zone_name, "nonexistent": "earliest"}
        first = _assume_zone(texts, ambiguous="earliest", **options)
        second = _assume_zone(texts, ambiguous="latest", **options)
        is_regular = (first == second) & (_to_local(first, self._zone_name) == local)
        micros = first.copy()
        problems: dict[int, str] = {}
        for index in np.flatnonzero(~is_regular).tolist():
            exists = bool(first[index] != second[index])
            problem = self._problem(exists)
            if problem is not None:
                problems[index] = problem
            elif not exists:
                micros[index] = self._moved_forward(int(local[index]))
            elif self._ambiguous == "later":
                micros[index] = second[index]
        return LocalizedTimes(micros, problems)

    def _problem(self, exists: bool) -> str | None:
        """Why a time that is not exactly one instant is refused."""
        if exists and self._ambiguous == "reject":
            return f"{_AMBIGUOUS_TIME} (zone {self._zone_name})"
        if not exists and self._missing == "reject":
            return f"{_MISSING_TIME} (zone {self._zone_name}); set `missing: forward` to read it"
        return None

    def _moved_forward(self, local: Micros) -> Micros:
        """A time that clocks skip, by the offset before: later by what they skip."""
        moment = from_micros(local).replace(tzinfo=self._zone, fold=0)
        return to_micros(moment.astimezone(UTC))


def _assume_zone(local: pa.Array, **options: Any) -> MicrosArray:
    return np.asarray(pc.assume_timezone(local, **options).cast(pa.int64()).to_numpy())


def _to_local(micros: MicrosArray, zone: str) -> MicrosArray:
    moments = pa.array(micros).cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us", zone))
    return np.asarray(pc.local_timestamp(moments).cast(pa.int64()).to_numpy())
