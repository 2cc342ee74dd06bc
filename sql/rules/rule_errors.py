"""Errors of rules."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg.types.json import Jsonb

from sql.gateway import Gateway
from sql.values import replace_nul


@dataclass(frozen=True, slots=True)
class RuleErrorRow:
    """An error of a rule.

    `kind`: `error`, `time`, `memory`, `flood` or `lost`. `event`: the row that caused it; None if unknown.
    `times`: number of occurrences; for a flood, the number of events that were dropped.
    `first_at`, `last_at`: wall-clock times.
    """

    rule: str
    version: str
    kind: str
    message: str
    event: Any
    times: int
    first_at: datetime
    last_at: datetime


class RuleErrorGateway(Gateway):
    queries = "rule_errors"

    def put(
        self,
        rule: str,
        version: str,
        *,
        kind: str,
        message: str,
        event: Mapping[str, Any] | None,
        times: int,
    ) -> None:
        """Record an error; the same error again is counted. See `RuleErrorRow`."""
        stored_event = None
        if event is not None:
            stored_event = Jsonb(replace_nul(event))
        self._execute(
            "put",
            rule=rule,
            version=version,
            kind=kind,
            message=replace_nul(message),
            event=stored_event,
            times=times,
        )

    def delete_oldest(self, rule: str, *, retained: int) -> None:
        """Delete the errors of a rule except the newest `retained` ones."""
        self._execute("delete_oldest", rule=rule, retained=retained)

    def list_newest(self, rule: str | None = None) -> list[RuleErrorRow]:
        """The errors of one rule or of all rules, newest first."""
        return self._records(RuleErrorRow, "list_newest", rule=rule)
