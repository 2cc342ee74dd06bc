"""The fields of sampled records: their types, and whether they are times."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from archiver.ingest import likely_formats, likely_units, parse_iso_time

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_LEADING_ZERO = re.compile(r"-?0[0-9]")
_NUMBER = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?(?:nan|inf)", re.I
)
_TIME_NAME = re.compile(r"(?:^|[._@])(?:ts|.*time.*|.*date.*|.*timestamp|created.*|start.*)$", re.I)
_TIMES_OF_DAY = (
    (re.compile(r"[0-9]{1,2}:[0-9]{2}:[0-9]{2}"), "%H:%M:%S"),
    (re.compile(r"[0-9]{1,2}:[0-9]{2}"), "%H:%M"),
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MAX_DEPTH = 4


@dataclass(frozen=True)
class TimeSummary:
    """How times are written: `units` of numbers, `formats` of texts other than ISO 8601.

    `is_date`: without a time of day. `is_text`: numbers are written as texts.
    """

    units: Sequence[str]
    formats: Sequence[str]
    is_local: bool
    is_date: bool = False
    is_text: bool = False


@dataclass(frozen=True)
class FieldSummary:
    """A field of records. `is_whole`: each of `count` records has it.

    `time_of_day`: the format in which it is one; None: it is not.
    """

    name: str
    type: str
    is_whole: bool
    count: int
    distinct: int
    time: TimeSummary | None
    time_of_day: str | None = None

    @property
    def is_named_time(self) -> bool:
        """Whether the name says that it is a time."""
        return _TIME_NAME.search(self.name) is not None

    @property
    def is_text_time(self) -> bool:
        """Whether it is a time that cannot be another number."""
        return self.time is not None and not self.time.units


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
        else:
            yield path, value


def _summarize(name: str, values: Sequence[Any], count: int) -> FieldSummary:
    time = _summarize_times(values)
    distinct = len(set(map(str, values)))
    is_whole = len(values) == count
    time_of_day = _find_time_of_day(values)
    return FieldSummary(name, _find_type(values), is_whole, count, distinct, time, time_of_day)


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
    if all(_INTEGER.fullmatch(text) for text in texts):
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
        return TimeSummary(ordered, [], is_local=False, is_text=is_text) if ordered else None
    moments = list(map(_parse_iso, texts))
    if all(moment is not None for moment in moments):
        is_local = any(moment.tzinfo is None for moment in moments if moment is not None)
        is_date = all(_DATE.fullmatch(text) for text in texts)
        return TimeSummary([], [], is_local, is_date)
    formats = likely_formats(texts)
    if not formats:
        return None
    return TimeSummary(
        [],
        formats,
        is_local=not any("z" in f or f in _WITH_OFFSET for f in formats),
        is_date=all("%" in f and not re.search("%[HITcsX]", f) for f in formats),
    )


_WITH_OFFSET = ("apache", "rfc2822")


def _parse_iso(text: str) -> datetime | None:
    # `20261120` alone is a number.
    return parse_iso_time(text) if re.search(r"[0-9]-[0-9]|T", text) else None
