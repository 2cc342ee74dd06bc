"""Alerts that other systems post: the rules of their names, and their newest posts."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from sql.gateway import Gateway
from sql.values import replace_nul


@dataclass(frozen=True, slots=True)
class ExternalAlertRow:
    """A posted alert. `ends_at`: None while it fires.

    `ends`: for each start that was posted, in microseconds, until when it fires, in microseconds.
    """

    id: UUID
    eid: UUID
    fingerprint: str
    starts_at: datetime
    ends_at: datetime | None
    annotations: Mapping[str, str]
    posted_at: datetime
    ends: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NewestPostRow:
    """The newest post of an alert. `ends`: see `ExternalAlertRow`.

    `open_until`: the latest of them, in microseconds; None: the alert has ended.
    """

    alert_id: UUID
    fingerprint: str
    posted_at: datetime
    ends: Mapping[str, int]
    open_until: int | None

    def to_json(self) -> dict[str, Any]:
        """The columns for the statement that stores them."""
        return {
            "alert_id": self.alert_id,
            "fingerprint": self.fingerprint,
            "posted_at": self.posted_at,
            "ends": self.ends,
            "open_until": self.open_until,
        }


class ExternalAlertGateway(Gateway):
    """Posted alerts; the alerts themselves are written by `AlertGateway`."""

    queries = "external_alerts"

    def list_rules(self, names: Collection[str]) -> dict[str, str]:
        """The rules of those of the names that have one."""
        return self._pairs("list_rules", names=list(names))

    def list_applied(self, rules: Collection[str]) -> list[str]:
        """Those of some names of rules that are applied."""
        return self._column("list_applied", rules=list(rules))

    def count_rules(self, other: str) -> int:
        """The number of rules of names, without the rule `other`."""
        return int(self._value("count_rules", other=other))

    def count_names(self) -> int:
        """The number of names that have a rule."""
        return int(self._value("count_names"))

    def put_rule(self, alertname: str, rule: str) -> None:
        """Store the rule of a name."""
        self._execute("put_rule", alertname=alertname, rule=rule)

    def list_latest(self, rule: str, fingerprints: Collection[str]) -> list[ExternalAlertRow]:
        """The latest alert of each of some fingerprints of a rule."""
        fingerprint_list = list(fingerprints)
        return self._records(
            ExternalAlertRow, "list_latest", rule=rule, fingerprints=fingerprint_list
        )

    def list_ended(self, clock: int, limit: int) -> list[ExternalAlertRow]:
        """At most `limit` of the alerts that fire and whose end has passed. `clock`: microseconds."""
        return self._records(ExternalAlertRow, "list_ended", clock=clock, limit=limit)

    def put(self, rows: Sequence[NewestPostRow]) -> None:
        """Store the newest posts of alerts."""
        self._execute_rows("put", [row.to_json() for row in rows])

    def close(self, alerts: Collection[UUID]) -> None:
        """Record that alerts have ended."""
        self._execute("close", alerts=list(alerts))

    def update_alert(
        self,
        alert_id: UUID,
        *,
        annotations: Mapping[str, str],
        last_at: datetime,
        ends_at: datetime | None,
        end_reason: str | None,
    ) -> None:
        """Change the annotations and the end of an alert. `last_at`: of its newest post."""
        self._execute(
            "update_alert",
            id=alert_id,
            annotations=Jsonb(replace_nul(annotations)),
            last_at=last_at,
            ends_at=ends_at,
            end_reason=end_reason,
        )

    def get_progress(self) -> datetime | None:
        """The event time up to which posts are read; None: no post was."""
        progress: datetime | None = self._value("get_progress")
        return progress

    def set_progress(self, read_to: datetime) -> None:
        """Record up to which event time posts are read."""
        self._execute("set_progress", read_to=read_to)
