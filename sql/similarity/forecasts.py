"""Forecasts of the measure `learned` as they were shown, and how they have held."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from sql.gateway import Gateway
from sql.values import replace_nul

Recall = tuple[str, str, str]
"""Rule, version and name of a recall."""


@dataclass(frozen=True, slots=True)
class ResolvedForecastRow:
    """What was shown about an event, compared with the tag of its alert's last resolution.

    `ts`: event time in microseconds. `probability`, `frequency`: of the tag, by the forecast and by
    plain frequencies. `withheld`: whether there were too few episodes to show probabilities.
    """

    ts: int
    tag: str
    probability: float
    frequency: float
    withheld: bool


@dataclass(frozen=True, slots=True)
class RecordFigures:
    """How the forecasts of a recall have held over its newest resolved episodes.

    `withheld_share`: of the episodes. The log losses are means, in nats; `excess`: of the first over
    the second, with its 95 % interval. None without episodes. `reason`: why frequencies are shown
    instead; None: they are not.
    """

    episodes: int
    withheld_share: float | None = None
    log_loss: float | None = None
    frequency_log_loss: float | None = None
    excess: float | None = None
    excess_low: float | None = None
    excess_high: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class ForecastRecordRow:
    """The record of a recall, see `RecordFigures`; `worse_since`: since when there is a reason."""

    rule: str
    version: str
    recall: str
    episodes: int
    withheld_share: float | None
    log_loss: float | None
    frequency_log_loss: float | None
    excess: float | None
    excess_low: float | None
    excess_high: float | None
    reason: str | None
    worse_since: datetime | None
    checked_at: datetime


class ForecastGateway(Gateway):
    queries = "forecasts"

    def put_shown(self, recall: Recall, eid: UUID, ts: datetime, shares: Mapping[str, Any]) -> None:
        """Store what is shown about an event, unless its alert has a tagged resolution."""
        values = _name(recall) | {"eid": eid, "ts": ts, "shares": Jsonb(replace_nul(shares))}
        self._execute("put_shown", **values)

    def list_resolved(self, recall: Recall) -> list[ResolvedForecastRow]:
        """What was shown about events that are resolved now, in time order."""
        return self._records(ResolvedForecastRow, "list_resolved", **_name(recall))

    def delete_oldest(self, recall: Recall, keep: int) -> None:
        """Delete what was shown about all but the newest events."""
        self._execute("delete_oldest", **_name(recall), keep=keep)

    def put_record(self, recall: Recall, figures: RecordFigures) -> None:
        """Store how forecasts have held; it replaces what was stored."""
        values = {name: getattr(figures, name) for name in RecordFigures.__slots__}
        self._execute("put_record", **_name(recall), **values)

    def delete_other_records(self, recalls: Sequence[Recall]) -> None:
        """Delete the records of all recalls but these."""
        self._execute(
            "delete_other_records",
            rules=[rule for rule, _, _ in recalls],
            versions=[version for _, version, _ in recalls],
            recalls=[name for _, _, name in recalls],
        )

    def list_records(self) -> list[ForecastRecordRow]:
        """The records of all recalls of deployed rules, by rule and recall."""
        return self._records(ForecastRecordRow, "list_records")

    def get_reason(self, recall: Recall) -> str | None:
        """Why frequencies are shown instead of forecasts; None: they are not."""
        reason: str | None = self._value("get_reason", **_name(recall))
        return reason


def _name(recall: Recall) -> dict[str, Any]:
    rule, version, name = recall
    return {"rule": rule, "version": version, "recall": name}
