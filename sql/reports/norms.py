"""The last answers about the newest alert of each key."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sql.gateway import Gateway


@dataclass(frozen=True, slots=True)
class LastKeyAnswerRow:
    """The last answer of a recall about an alert; `recall` None: the attributes of its last event.

    `kind`: sql, similar or event. `coverage` and `comparable`: of the answer.
    """

    rule: str
    key: Mapping[str, Any]
    state: str
    recall: str | None
    kind: str
    answer: Sequence[Mapping[str, Any]]
    coverage: Mapping[str, Any] | None
    comparable: float | None
    starts_at: datetime


class NormGateway(Gateway):
    """Answers by rule and key."""

    queries = "norms"

    def list_last(self, *, since: datetime, rule: str | None, limit: int) -> list[LastKeyAnswerRow]:
        """Those of alerts that fired since a time by the clock, or fire now; newest alerts first.

        `rule`: with or without its group; None: all. `limit`: of alerts.
        """
        return self._records(LastKeyAnswerRow, "list_last", since=since, rule=rule, limit=limit)
