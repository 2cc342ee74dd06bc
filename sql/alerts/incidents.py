"""Incidents: in which each alert is, and what people decided."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sql.gateway import Gateway
from sql.values import replace_nul, to_json_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedAlertRow:
    """An alert as it is grouped. `starts_at`: event time."""

    id: UUID
    eid: UUID
    rule: str
    version: str
    fingerprint: str
    key: Mapping[str, Any]
    starts_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class UnplacedAlertRow(GroupedAlertRow):
    """An alert that is in no incident. `withdrawn`: it need not be in one."""

    withdrawn: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedAlertRow(GroupedAlertRow):
    """An alert that is in an incident. `series`, `changes`: see `NewPlacement`."""

    incident: UUID
    series: str
    changes: Sequence[str]


@dataclass(frozen=True, slots=True)
class NewPlacement:
    """Where an alert is placed.

    `series`: which alerts are of one rule and key. `overlap`: with the incident, from 0 to 1.
    `changes`: that came before it near its place.
    """

    alert_id: UUID
    incident: UUID
    series: str
    overlap: float
    reason: str
    changes: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """The columns for a statement."""
        return {
            "alert_id": self.alert_id,
            "incident": self.incident,
            "series": self.series,
            "overlap": self.overlap,
            "reason": replace_nul(self.reason),
            "changes": [replace_nul(change) for change in self.changes],
        }


@dataclass(frozen=True, slots=True)
class EventContextsRow:
    """The contexts of an event for a version of a rule, by name."""

    rule: str
    version: str
    eid: UUID
    contexts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class IncidentDecisionRow:
    """What a person has decided: confirm, split or merge.

    `other`: the incident that was split off, or merged into this one. `series`: of the alerts that
    were parted from those of `others`, or put together with them.
    """

    id: int
    incident: UUID
    kind: str
    other: UUID | None
    author: str
    comment: str
    series: Sequence[str]
    others: Sequence[str]
    at: datetime


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """An incident by its alerts. Times are event times, but `resolved_at`.

    `state`: proposed or confirmed. `ends_at`: None while an alert fires. `resolved`: how many alerts
    have a resolution, the last since `resolved_at`.
    """

    id: UUID
    state: str
    starts_at: datetime
    ends_at: datetime | None
    alerts: int
    firing: int
    resolved: int
    resolved_at: datetime | None
    rules: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentAlertRow:
    """An alert of an incident, and why it is there."""

    incident: UUID
    alert_id: UUID
    series: str
    overlap: float
    reason: str
    placed_at: datetime
    eid: UUID
    rule: str
    version: str
    key: Mapping[str, Any]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    state: str
    starts_at: datetime
    ends_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentFilter:
    """Which incidents to list. `unresolved`: those with an alert that has no resolution.

    `alert`: the one that an alert is in. `after`: start and ID of the last one of the previous page.
    """

    active: bool = False
    unresolved: bool = False
    alert: UUID | None = None
    state: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    after: tuple[datetime, UUID] | None = None

    def parameters(self) -> dict[str, Any]:
        """Values of a statement that lists incidents."""
        cursor_start, cursor_id = self.after or (None, None)
        return {
            "active": self.active,
            "unresolved": self.unresolved,
            "alert": self.alert,
            "state": self.state,
            "since": self.since,
            "until": self.until,
            "cursor_start": cursor_start,
            "cursor_id": cursor_id,
        }


class IncidentGateway(Gateway):
    """Incidents of alerts that fired."""

    queries = "incidents"

    def list_unplaced(self, wait: timedelta, *, limit: int) -> list[UnplacedAlertRow]:
        """The oldest alerts in no incident; those without a context fired at least `wait` ago."""
        return self._records(UnplacedAlertRow, "list_unplaced", wait=wait, limit=limit)

    def list_placed(self, since: datetime, last: int) -> list[PlacedAlertRow]:
        """Alerts that began since a time, and the last ones, in the order in which they were placed."""
        return self._records(PlacedAlertRow, "list_placed", since=since, last=last)

    def newest_start(self) -> datetime | None:
        """When the newest placed alert began; None without alerts."""
        start: datetime | None = self._value("newest_start")
        return start

    def list_contexts(
        self, alerts: Iterable["GroupedAlertRow | IncidentAlertRow"]
    ) -> list[EventContextsRow]:
        """The contexts of the first events of alerts; of those that have any."""
        rows = [{"rule": row.rule, "version": row.version, "eid": row.eid} for row in alerts]
        return self._records(EventContextsRow, "list_contexts", rows=to_json_rows(rows))

    def lock_decisions(self) -> None:
        """Let nobody else place alerts or decide until the end of the transaction."""
        self._execute("lock_decisions")

    def last_decision(self) -> int:
        """The number of the newest decision; 0 without one."""
        return int(self._value("last_decision"))

    def list_decisions(self) -> list[IncidentDecisionRow]:
        """Splits and merges, oldest first."""
        return self._records(IncidentDecisionRow, "list_decisions")

    def list_decisions_of(self, incident: UUID) -> list[IncidentDecisionRow]:
        """The decisions about an incident, oldest first."""
        return self._records(IncidentDecisionRow, "list_decisions_of", incident=incident)

    def place(self, placements: Sequence[NewPlacement], placed: Collection[UUID]) -> None:
        """Store where alerts are. `placed`: also those that need not be in an incident."""
        incidents = dict.fromkeys(placement.incident for placement in placements)
        self._execute_rows("put_incidents", [{"id": incident} for incident in incidents])
        self._execute_rows("place", [placement.to_json() for placement in placements])
        self._execute("dequeue", alerts=list(placed))

    def list_newest(self, selection: IncidentFilter, *, limit: int) -> list[IncidentRow]:
        """Incidents of several alerts, or confirmed ones, newest first."""
        return self._records(IncidentRow, "list_newest", limit=limit, **selection.parameters())

    def count_newest(self, selection: IncidentFilter) -> int:
        """The number of incidents that `list_newest` returns without a limit."""
        return self._count("list_newest", limit=None, **selection.parameters())

    def get(self, incident: UUID) -> IncidentRow | None:
        """An incident; None: it has no alert that fired."""
        return self._record(IncidentRow, "get", incident=incident)

    def find(self, prefix: str, *, limit: int) -> list[UUID]:
        """Incidents by how their ID or that of an alert begins. The text is a pattern of LIKE."""
        return self._column("find", prefix=prefix, limit=limit)

    def list_members(self, incidents: Collection[UUID]) -> list[IncidentAlertRow]:
        """The alerts of incidents, oldest first, also withdrawn ones."""
        return self._records(IncidentAlertRow, "list_members", incidents=list(incidents))

    def confirm(self, incident: UUID) -> None:
        """Note that a person says that it is one incident."""
        self._execute("confirm", incident=incident)

    def split(self, incident: UUID, alerts: Collection[UUID], reason: str) -> None:
        """Put alerts into a new incident, which is confirmed."""
        self._execute_rows("put_incidents", [{"id": incident}])
        self._execute("confirm", incident=incident)
        self._execute("move", incident=incident, alerts=list(alerts), reason=replace_nul(reason))

    def merge(self, merged: UUID, incident: UUID, reason: str) -> None:
        """Put all alerts of an incident into another one, which is confirmed."""
        self._execute("move_all", merged=merged, incident=incident, reason=replace_nul(reason))
        self._execute("end_merged", merged=merged, incident=incident)
        self._execute("confirm", incident=incident)

    def add_decision(
        self,
        incident: UUID,
        kind: str,
        author: str,
        comment: str,
        *,
        other: UUID | None = None,
        series: Sequence[str] = (),
        other_series: Sequence[str] = (),
    ) -> None:
        """Store what a person decides, before what follows from it."""
        self._execute(
            "insert_decision",
            incident=incident,
            kind=kind,
            other=other,
            author=author,
            comment=replace_nul(comment),
            series=list(series),
            others=list(other_series),
        )
