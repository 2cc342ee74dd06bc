"""What a norm asks for, what it knows of past alerts, and the columns of its answer. No I/O."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from archiver.times import Micros

Season = Literal["none", "hour_of_day", "hour_of_week"]
SeasonSetting = Literal["auto", "none", "hour_of_day", "hour_of_week"]
Exclusion = Literal["alerts", "incidents", "none"]

# Rows of history that a norm rests on at most, the newest ones.
MAX_ROWS = 100_000
VALUE_COLUMN = "value"

NORM_COLUMNS: Mapping[str, str] = {
    "verdict": "string",
    "score": "double",
    "rank": "double",
    "rank_low": "double",
    "rank_high": "double",
    "median": "double",
    "q025": "double",
    "q25": "double",
    "q75": "double",
    "q975": "double",
    "low": "double",
    "high": "double",
    "mean": "double",
    "sd": "double",
    "n": "bigint",
    "cycles": "bigint",
    "seen": "bigint",
    "seen_with_alert": "bigint",
    "season": "string",
    "season_reason": "string",
    "excluded": "bigint",
    "counted_again": "bigint",
    "says": "string",
}
"""The columns of the only row of an answer, with Spark's types.

`verdict`: higher, lower, usual, too few cycles, or no value. `score`: see `Band.find_score`.
`rank`: the share of the rows below the value, equal ones by half, with its 95 % interval over
cycles. `low`, `high`: beyond them a value is abnormal. `n`: rows, in so many `cycles`. `seen`: the
earlier cycles in which a value was at least as extreme, also in the spans of alerts. `season`: the
one that was used. `excluded`: spans of past alerts that were left out; `counted_again`: spans that were not.
`says`: all of it, as a sentence.
"""


@dataclass(frozen=True)
class NormSpec:
    """A norm of the numbers `of`. The fields are keys of stored JSON: do not rename them.

    `span`: how far back its range goes, in microseconds. `zone`: of the clock of its season.
    `exclude`: which spans of the past are left out. `by`: the columns of the key; None: as an earlier
    version stored it, not known.
    """

    of: str
    season: SeasonSetting
    zone: str
    span: Micros
    exclude: Exclusion
    by: tuple[str, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """The stored form."""
        return {**asdict(self), "by": None if self.by is None else list(self.by)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "NormSpec":
        """The inverse of `to_json`."""
        spec = cls(**stored)
        return spec if spec.by is None else replace(spec, by=tuple(spec.by))


@dataclass(frozen=True)
class AlertSpan:
    """The span of an alert of the event's key that had fired, as was known at the time of the event.

    `start`: of its first event. `end`: of the alert; None: it went on. `no_action`: an operator had
    said that it needed none. `incident`: the span of its incident, if all alerts of that had a
    resolution.
    """

    start: Micros
    end: Micros | None
    no_action: bool = False
    incident: tuple[Micros, Micros | None] | None = None

    def to_json(self) -> tuple[Any, ...]:
        """The stored form."""
        return self.start, self.end, self.no_action, self.incident

    @classmethod
    def from_json(cls, stored: Sequence[Any]) -> "AlertSpan":
        """The inverse of `to_json`. Earlier versions stored whether the alert had a resolution."""
        start, end, no_action, incident = (*stored, None, None)[:4]
        if isinstance(incident, bool):
            incident = (start, end) if incident else None
        return cls(start, end, bool(no_action), None if incident is None else tuple(incident))
