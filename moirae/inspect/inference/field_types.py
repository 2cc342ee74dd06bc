"""The fields of sampled records: their types, and whether they are times."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from archiver.ingest import likely_format_lists, likely_units, parse_iso_time

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_MAX_INTEGER = 2**63 - 1
_LEADING_ZERO = re.compile(r"-?0[0-9]")
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:nan|inf)", re.I
)
_TIME_NAME = re.compile(
    r"(?:^|[._@])(?:ts|t|.*time.*|.*date.*|created.*|start.*|epoch.*|clock|seconds)$"
    r"|\[0\]$",
    re.I,
)
_TIMES_OF_DAY = (
    (re.compile(r"[0-9]{1,2}:[0-9]{2}:[0-9]{2}"), "%H:%M:%S"),
    (re.compile(r"[0-9]{1,2}:[0-9]{2}:[0-9]{2}\.[0-9]+"), "%H:%M:%S.%f"),
    (re.compile(r"[0-9]{1,2}:[0-9]{2}"), "%H:%M"),
    (re.compile(r"[0-9]{1,2}:[0-9]{2}:[0-9]{2} [AaPp][Mm]"), "%I:%M:%S %p"),
    (re.compile(r"[0-9]{1,2}:[0-9]{2} [AaPp][Mm]"), "%I:%M %p"),
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DIGITS_OF_TIME = re.compile(r"[0-9]{8}(?:[0-9]{6})?")  # 20261120100000
_MAX_DEPTH = 4


@dataclass(frozen=True)
class TimeSummary:
    """How times are written: `units` of numbers, `formats` of texts other than ISO 8601.

    Each of `formats` reads all texts; several formats that do so together are one element.
    `is_date`: without a time of day. `is_text`: numbers are written as texts.
    """

    units: Sequence[str]
    formats: Sequence[Sequence[str]]
    is_local: bool
    is_date: bool = False
    is_text: bool = False


@dataclass(frozen=True)
class FieldSummary:
    """A field of records. `is_whole`: each of `count` records has it.

    `time_of_day`: the format in which it is one; None: it is not. `is_nested`: some values are
    objects or arrays.
    """

    name: str
    type: str
    is_whole: bool
    count: int
    distinct: int
    time: TimeSummary | None
    time_of_day: str | None = None
    is_nested: bool = False

    @property
    def is_named_time(self) -> bool:
        """Whether the name says that it is a time."""
        return _TIME_NAME.search(self.name) is not None

    @property
    def is_text_time(self) -> bool:
        """Whether it is a time that cannot be a number."""
        return self.time is not None and not self.time.units and self.type != "bigint"


def summarize_fields(
    records: Sequence[Mapping[str, Any]], decimal: str = "."
) -> list[FieldSummary]:
    """The fields in the order in which they appear; those of objects by their paths.

    `decimal`: the decimal sign of texts.
    """
    values: dict[str, list[Any]] = {}
    for record in records:
        for name, value in _flatten(record, ""):
            values.setdefault(name, []).append(value)
    summaries: list[FieldSummary] = []
    for name, all_values in values.items():
        present = [value for value in all_values if value is not None]
        if present:
            numbers = present if decimal == "." else _with_points(present, decimal)
            summaries.append(_summarize(name, numbers, len(records)))
    return summaries


def _with_points(values: Sequence[Any], decimal: str) -> Sequence[Any]:
    """Numbers with a point as decimal sign; other values as they are."""
    texts = [str(value).replace(decimal, ".", 1) for value in values]
    return texts if all(map(_NUMBER.fullmatch, texts)) else values


def _flatten(record: Mapping[str, Any], prefix: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping) and value and depth < _MAX_DEPTH:
            yield from _flatten(value, f"{path}.", depth + 1)
        elif isinstance(value, list) and _is_timed_value(value):
            yield from ((f"{path}[{index}]", element) for index, element in enumerate(value))
        else:
            yield path, value


def _is_timed_value(elements: list[Any]) -> bool:
    """Whether an array is a time and a value, as Prometheus writes samples."""
    return (
        len(elements) == 2
        and isinstance(elements[0], int | float)
        and not isinstance(elements[1], list | Mapping)
        and bool(likely_units(elements[0]))
    )


def _summarize(name: str, values: Sequence[Any], count: int) -> FieldSummary:
    time = _summarize_times(values)
    distinct = len(set(map(str, values)))
    is_whole = len(values) == count
    time_of_day = _find_time_of_day(values)
    is_nested = any(isinstance(value, Mapping | list) for value in values)
    return FieldSummary(
        name, _find_type(values), is_whole, count, distinct, time, time_of_day, is_nested
    )


def _find_time_of_day(values: Sequence[Any]) -> str | None:
    for pattern, time_format in _TIMES_OF_DAY:
        if all(pattern.fullmatch(str(value).strip()) for value in values):
            return time_format
    return None


def _find_type(values: Sequence[Any]) -> str:
    if all(isinstance(value, bool) for value in values):
        return "boolean"
    if any(isinstance(value, bool | Mapping | list) for value in values):
        return "string"
    if all(isinstance(value, datetime) for value in values):
        return "timestamp"
    texts = list(map(str, values))
    if any(_LEADING_ZERO.match(text) for text in texts):
        return "string"  # an identifier of digits
    if all(_INTEGER.fullmatch(text) and abs(int(text)) <= _MAX_INTEGER for text in texts):
        return "bigint"
    return "double" if all(_NUMBER.fullmatch(text) for text in texts) else "string"


def _summarize_times(values: Sequence[Any]) -> TimeSummary | None:
    if all(isinstance(value, datetime) for value in values):
        return TimeSummary([], [], is_local=False)
    if any(isinstance(value, bool) for value in values):
        return None
    texts = [str(value).strip() for value in values]
    if all(_NUMBER.fullmatch(text) for text in texts):
        units = [set(likely_units(float(text))) for text in texts]
        common = set.intersection(*units) if units else set()
        ordered = [unit for unit in ("s", "ms", "us", "ns") if unit in common]
        is_text = any(isinstance(value, str) for value in values)
        if ordered:
            return TimeSummary(ordered, [], is_local=False, is_text=is_text)
        if not all(_DIGITS_OF_TIME.fullmatch(text) for text in texts):
            return None
    moments = list(map(_parse_iso, texts))
    if all(moment is not None for moment in moments):
        is_local = any(moment.tzinfo is None for moment in moments if moment is not None)
        is_date = all(_DATE.fullmatch(text) for text in texts)
        return TimeSummary([], [], is_local, is_date)
    formats = likely_format_lists(texts)
    if not formats:
        return None
    names = [name for together in formats for name in together]
    return TimeSummary(
        [],
        formats,
        is_local=not any("z" in name or name in _WITH_OFFSET for name in names),
        is_date=all("%" in name and not re.search("%[HITcsX]", name) for name in names),
    )


_WITH_OFFSET = ("apache", "rfc2822")


def _parse_iso(text: str) -> datetime | None:
    # `20261120` alone is a number.
    return parse_iso_time(text) if re.search(r"[0-9]-[0-9]|T|/Date", text) else None
