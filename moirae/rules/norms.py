"""The recall `normal`: what is normal at this time, of the rows with the event's key.

It is compiled to a query of these rows over a range of the same times, and what follows from them
(`recall.norms`).
"""

from __future__ import annotations

from datetime import timedelta
from typing import Self

from pydantic import Field, field_validator, model_validator
from sqlglot import exp

from archiver.times import check_zone, duration_to_micros
from moirae.config import PositiveDuration
from moirae.documents.types import ConfigModel, TableName, Text
from moirae.rules.history_range import HistoryRange, HistorySpan
from recall.norms import MAX_ROWS, MIN_CYCLES, VALUE_COLUMN, Exclusion, NormSpec, SeasonSetting

_DEFAULT_RANGE = timedelta(weeks=8)
_MAX_RANGE = timedelta(days=1_100)
_CYCLES = {"hour_of_day": timedelta(days=1), "hour_of_week": timedelta(weeks=1)}
_ALIAS = "history"


class Norm(ConfigModel):
    """What is normal at this time of the day or week.

    Median, quantiles, mean and standard deviation of a column over the earlier rows of the event's
    key in the same season, and where the event's own value stands among them.
    """

    of: Text = Field(
        description="The numeric column, which is also an attribute of the event, its value."
    )
    by: tuple[Text, ...] = Field(
        description="Columns that are equal to the attributes of the event with their names."
    )
    stream: TableName | None = Field(
        default=None,
        description="The stream of the column; null: the only one that the event query reads.",
    )
    season: SeasonSetting = Field(
        default="auto",
        description=(
            "Which earlier rows are compared: those of the same hour_of_day or hour_of_week, all "
            "(none), or auto: as held-back days of the history are described best."
        ),
    )
    zone: Text = Field(
        default="UTC", description="The time zone of hours and days, such as Europe/Rome."
    )
    range: PositiveDuration = Field(
        default=_DEFAULT_RANGE,
        description="Event time before the event from which history is read.",
    )
    exclude: Exclusion = Field(
        default="alerts",
        description=(
            "What is left out: the spans of past alerts with this key (alerts), those of resolved "
            "incidents that such alerts are in (incidents), or none. Long ones, and those that "
            "needed no action, count."
        ),
    )

    @field_validator("zone")
    @classmethod
    def _validate_zone(cls, zone: str) -> str:
        return check_zone(zone)

    @field_validator("range")
    @classmethod
    def _limit_range(cls, span: timedelta) -> timedelta:
        if span > _MAX_RANGE:
            raise ValueError(f"at most {_MAX_RANGE.days}d")
        return span

    @model_validator(mode="after")
    def _require_cycles(self) -> Self:
        """Refuse a range in which there never are enough cycles for a verdict."""
        cycle = _CYCLES.get(self.season)
        if cycle is not None and self.range < MIN_CYCLES * cycle:
            raise ValueError(
                f"range: too short for season {self.season}: {MIN_CYCLES} cycles are at least "
                f"{MIN_CYCLES * cycle.days}d"
            )
        return self

    @property
    def sql(self) -> str:
        """The query of the rows, the newest ones."""
        value = exp.alias_(_column(self.of), VALUE_COLUMN)
        query = exp.select(value).from_(exp.to_table(self.stream or "", alias=_ALIAS))
        for name in self.by:
            attribute = exp.column(exp.to_identifier(name, quoted=True), table="event")
            query = query.where(exp.EQ(this=_column(name), expression=attribute))
        query = query.where(_column(self.of).is_(exp.null()).not_())
        return query.limit(MAX_ROWS).sql(dialect="spark")

    @property
    def history_range(self) -> HistoryRange:
        """The times that are read: of `auto` all, from which the season is chosen."""
        span = HistorySpan(self.range)
        if self.season == "none" or self.season == "auto":
            return HistoryRange(last=span)
        return HistoryRange(last=span, same=self.season, zone=self.zone)

    @property
    def spec(self) -> NormSpec:
        """What is computed of the rows."""
        span = duration_to_micros(self.range)
        return NormSpec(self.of, self.season, self.zone, span, self.exclude, self.by)


def _column(name: str) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), table=_ALIAS)
