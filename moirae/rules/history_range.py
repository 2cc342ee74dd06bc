"""The key `range` of an SQL recall: which event times before an event it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from archiver.times import check_zone, duration_to_micros
from moirae.config import PositiveDuration, format_duration, parse_duration
from moirae.documents.types import ConfigModel, Text
from recall.history_ranges import (
    PERIODS,
    TIME_OF_DAY,
    Landmark,
    Recurrence,
    Season,
    parse_landmark,
)

_SPAN_SEPARATOR = ".."
# Of a season: each occurrence is a range of its own that is planned and stored.
_MAX_OCCURRENCES = 4_000


@dataclass(frozen=True)
class HistorySpan:
    """Event times from `older` to `newer` before an event."""

    older: timedelta
    newer: timedelta = timedelta(0)

    def __str__(self) -> str:
        if not self.newer:
            return format_duration(self.older)
        return f"{format_duration(self.older)}{_SPAN_SEPARATOR}{format_duration(self.newer)}"


def _parse_span(value: Any) -> HistorySpan:
    if isinstance(value, HistorySpan):
        return value
    if isinstance(value, timedelta):  # set in Python, not read from a file
        value = format_duration(value)
    if not isinstance(value, str):
        raise ValueError("a duration needs a unit; write 7d, or 8d..7d for an offset")
    older, separator, newer = value.partition(_SPAN_SEPARATOR)
    span = HistorySpan(parse_duration(older), parse_duration(newer) if separator else timedelta(0))
    if span.older <= timedelta(0):
        raise ValueError("must be longer than 0s")
    if span.older <= span.newer:
        raise ValueError(f"{value!r} is empty: write the longer time before the event first")
    return span


_SPAN_SCHEMA = {
    "type": "string",
    "pattern": r"^[0-9]+(?:ms|[smhdw])[0-9a-z]*(?:\.\.[0-9a-z]+)?$",
    "examples": ["7d", "8d..7d"],
}
Span = Annotated[
    HistorySpan,
    PlainValidator(_parse_span),
    PlainSerializer(str, return_type=str),
    WithJsonSchema(_SPAN_SCHEMA),
]


def _check_time_of_day(value: Any) -> str:
    """A time HH:MM; YAML reads 22:00 without quotes as a number to the base of 60."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(getattr(value, "source_text", value))
    if not isinstance(value, str) or TIME_OF_DAY.fullmatch(value) is None:
        raise ValueError(f"{str(value)[:20]!r} is not a time of the day, such as '07:00'")
    return value


TimeOfDay = Annotated[
    str,
    PlainValidator(_check_time_of_day),
    WithJsonSchema({"type": "string", "pattern": f"^{TIME_OF_DAY.pattern}$"}),
]


class HistoryRange(ConfigModel):
    """Event times before an event. `range: 7d` is short for `range: {last: 7d}`."""

    until: Literal["previous"] | None = Field(
        default=None,
        description=(
            "previous: backwards until the last event of the alert before this one, of the same "
            "rule and key; without one, to the beginning or as far as last says."
        ),
    )
    last: Span | None = Field(
        default=None,
        description=(
            "Event time before the event from which history is read, such as 7d; or from one to "
            "another time before it: 8d..7d. Required unless since or until is set."
        ),
    )
    since: TimeOfDay | None = Field(
        default=None,
        validate_default=True,
        description=(
            "A time of the day, such as 07:00: history is read from the last time on that a clock in "
            "zone showed it."
        ),
    )
    same: Recurrence | None = Field(
        default=None,
        validate_default=True,
        description=(
            "Only rows whose local time is in the same hour of the day or of the week as the "
            "event, or on the same day of the week."
        ),
    )
    zone: Text | None = Field(
        default=None,
        validate_default=True,
        description="The time zone of since and same, such as Europe/Rome; null: UTC.",
    )
    around: PositiveDuration | None = Field(
        default=None,
        validate_default=True,
        description=(
            "With same: hour_of_day or hour_of_week: instead of the rows of that hour, those up to "
            "this time before and after the event's time of the day or week."
        ),
    )

    @field_validator("since")
    @classmethod
    def _require_start(cls, since: str | None, info: ValidationInfo) -> str | None:
        if since is None and info.data.get("last", 0) is None and info.data.get("until", 0) is None:
            raise ValueError("set last, since or until: where does the range begin?")
        return since

    @field_validator("same")
    @classmethod
    def _require_last(cls, same: Recurrence | None, info: ValidationInfo) -> Recurrence | None:
        if same is not None and "last" in info.data and info.data["last"] is None:
            raise ValueError("same needs last, such as last: 8w")
        return same

    @field_validator("zone")
    @classmethod
    def _validate_zone(cls, zone: str | None, info: ValidationInfo) -> str | None:
        if zone is None:
            return None
        has_none = info.data.get("since") is None and info.data.get("same") is None
        if has_none and {"since", "same"} <= info.data.keys():
            raise ValueError("zone needs since or same: it is the zone of their local times")
        return check_zone(zone)

    @field_validator("around")
    @classmethod
    def _validate_around(cls, distance: timedelta | None, info: ValidationInfo) -> timedelta | None:
        same = info.data.get("same")
        if distance is None or "same" not in info.data:
            return distance
        if same not in ("hour_of_day", "hour_of_week"):
            raise ValueError("around needs same: hour_of_day or hour_of_week")
        if 2 * duration_to_micros(distance) >= PERIODS[same]:
            raise ValueError(f"with same: {same}, twice around is all of the time: omit same")
        return distance

    @model_validator(mode="after")
    def _limit_occurrences(self) -> HistoryRange:
        if self.same is not None and self.last is not None:
            span = duration_to_micros(self.last.older - self.last.newer)
            if span // PERIODS[self.same] > _MAX_OCCURRENCES:
                raise ValueError(
                    f"{self.same} recurs more than {_MAX_OCCURRENCES:,} times in {self.last}"
                )
        return self

    @property
    def season(self) -> Season | None:
        """The local times that are read; None: all."""
        if self.same is None:
            return None
        distance = None if self.around is None else duration_to_micros(self.around)
        return Season(self.same, self.zone or "UTC", distance)

    @property
    def landmark(self) -> Landmark | None:
        """The time of the day from which on history is read; None: any."""
        if self.since is None:
            return None
        return parse_landmark(self.since, self.zone or "UTC")


def _expand_span(value: Any) -> Any:
    """Read `7d` as `{last: 7d}`."""
    if value is None or isinstance(value, Mapping | HistoryRange):
        return value
    return HistoryRange(last=_parse_span(value))


def _write_range(value: HistoryRange | None) -> Any:
    """In the short form if nothing else is set: rules are stored as they were before there was more."""
    if value is None:
        return None
    if value.same is None and value.since is None and value.until is None:
        return str(value.last)
    written = {
        "until": value.until,
        "last": None if value.last is None else str(value.last),
        "since": value.since,
        "same": value.same,
        "zone": value.zone,
        "around": None if value.around is None else format_duration(value.around),
    }
    return {name: text for name, text in written.items() if text is not None}


Range = Annotated[
    HistoryRange | None,
    BeforeValidator(_expand_span, json_schema_input_type=Span | HistoryRange | None),
    PlainSerializer(_write_range),
]
