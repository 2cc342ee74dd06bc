"""Alerts of rules."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from sql.gateway import Gateway
from sql.values import replace_nul


@dataclass(frozen=True, slots=True)
class AlertDescriptionRow:
    """The columns of an alert that depend on its first event, including its ID."""

    id: UUID
    eid: UUID
    rule: str
    version: str
    fingerprint: str
    key: Mapping[str, Any]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]

    def parameters(self) -> dict[str, Any]:
        """Values of a statement that inserts the alert."""
        return {
            "id": self.id,
            "eid": self.eid,
            "rule": self.rule,
            "version": self.version,
            "fingerprint": self.fingerprint,
            "key": Jsonb(replace_nul(self.key)),
            "labels": Jsonb(replace_nul(self.labels)),
            "annotations": Jsonb(replace_nul(self.annotations)),
        }


@dataclass(frozen=True, slots=True)
class AlertLifetimeRow:
    """The columns of an alert that change with its events. Times are event times.

    `events`: their number. `fired_at`, `ends_at`: None until then. `settled`: the lifetime by
    settled events alone; None if there are none.
    """

    state: str
    starts_at: datetime
    fired_at: datetime | None
    last_at: datetime
    ends_at: datetime | None
    events: int
    settled: Mapping[str, Any] | None

    def parameters(self) -> dict[str, Any]:
        """Values of a statement that inserts or updates the alert."""
        settled = None
        if self.settled is not None:
            settled = Jsonb(self.settled)
        return {
            "state": self.state,
            "starts_at": self.starts_at,
            "fired_at": self.fired_at,
            "last_at": self.last_at,
            "ends_at": self.ends_at,
            "events": self.events,
            "settled": settled,
        }


@dataclass(frozen=True, slots=True)
class OpenAlertRow(AlertLifetimeRow):
    """An alert that has not ended."""

    id: UUID
    eid: UUID
    fingerprint: str
    key: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AlertRow:
    """An alert.

    `starts_at`, `fired_at`, `last_at`, `ends_at`: event times, None until then. `created_at`,
    `raised_at`, `updated_at`: when it was stored, when it was stored as firing first (None until
    then), and when it changed last. `history`: the result of the rule's `where`, waiting, kept,
    withdrawn or no_history; None without one. `history_final`: it does not change any more.
    `past`: found in history. `acknowledged_by`: author of the last acknowledgement.
    """

    id: UUID
    eid: UUID
    rule: str
    version: str
    key: Mapping[str, Any]
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    state: str
    history: str | None
    history_final: bool
    starts_at: datetime
    fired_at: datetime | None
    last_at: datetime
    ends_at: datetime | None
    events: int
    past: bool
    created_at: datetime
    raised_at: datetime | None
    updated_at: datetime
    acknowledged_by: str | None


@dataclass(frozen=True, slots=True)
class ExportedAlertRow:
    """An alert. Times are event times; `ends_at` is None while it is open. See `AlertRow`."""

    id: UUID
    eid: UUID
    rule: str
    key: Mapping[str, Any]
    labels: Mapping[str, str]
    state: str
    history: str | None
    history_final: bool
    starts_at: datetime
    ends_at: datetime | None


@dataclass(frozen=True, slots=True)
class RaisedAlertRow:
    """An alert that fired. `starts_at`: event time; `raised_at`: when it was stored as firing."""

    id: UUID
    eid: UUID
    rule: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    starts_at: datetime
    raised_at: datetime


@dataclass(frozen=True, slots=True)
class AlertCountsRow:
    """Numbers of settled and of detected events. `alerts`: number of alerts by state."""

    settled_events: int
    detected_events: int
    alerts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class AlertDelaysRow:
    """Quantiles of the delay from event time to storage, in milliseconds; None without alerts."""

    alerts: int
    p50: float | None
    p99: float | None


class AlertGateway(Gateway):
    """The alerts of all rules."""

    queries = "alerts"

    def list_open(self, rule: str) -> list[OpenAlertRow]:
        """The alerts of a rule that are neither ended nor withdrawn, in no order."""
        return self._records(OpenAlertRow, "list_open", rule=rule)

    def put(self, description: AlertDescriptionRow, lifetime: AlertLifetimeRow) -> None:
        """Store an alert, or replace the stored one by one with another first event."""
        self._execute("put", **description.parameters(), **lifetime.parameters())

    def update(self, alert_id: UUID, lifetime: AlertLifetimeRow) -> None:
        """Store the lifetime of an alert whose first event is unchanged."""
        self._execute("update", id=alert_id, **lifetime.parameters())

    def withdraw(self, alert_id: UUID) -> None:
        """Withdraw a provisional alert that settling did not confirm."""
        self._execute("withdraw", id=alert_id)

    def list_newest(
        self,
        *,
        rule: str | None = None,
        states: Collection[str] | None = None,
        include_all: bool = False,
        limit: int,
    ) -> list[AlertRow]:
        """Alerts, newest first.

        `rule`: the name of a rule with or without its group. `states`: None for all states.
        `include_all`: also alerts found in history, withdrawn by settling or `where`, or that
        ended before they fired.
        """
        return self._records(
            AlertRow,
            "list_newest",
            rule=rule,
            states=_as_list(states),
            include_all=include_all,
            id_prefix=None,
            limit=limit,
        )

    def count_newest(
        self, *, rule: str | None, states: Collection[str] | None, include_all: bool
    ) -> int:
        """The number of alerts that `list_newest` returns without a limit."""
        return self._count(
            "list_newest",
            rule=rule,
            states=_as_list(states),
            include_all=include_all,
            id_prefix=None,
            limit=None,
        )

    def list_by_prefix(self, prefix: str, *, limit: int) -> list[AlertRow]:
        """The newest alerts of which the ID, or the ID of the first event, starts with a text.

        The text is a pattern of LIKE.
        """
        return self._records(
            AlertRow,
            "list_newest",
            rule=None,
            states=None,
            include_all=True,
            id_prefix=prefix,
            limit=limit,
        )

    def export(self) -> Iterator[ExportedAlertRow]:
        """All alerts, oldest first. Those that `where` rejects are withdrawn."""
        return self._stream(ExportedAlertRow, "export")

    def count_by_state(self) -> AlertCountsRow:
        """The numbers of events and alerts, without those of history."""
        counts = self._record(AlertCountsRow, "count_by_state")
        assert counts is not None
        return counts

    def list_raised(self, since: datetime) -> list[RaisedAlertRow]:
        """Alerts that were stored as firing first after a time, in this order."""
        return self._records(RaisedAlertRow, "list_raised", since=since)

    def delays(self, since: datetime) -> AlertDelaysRow:
        """Delays of the alerts that started at or after a time and fired at their first event."""
        delays = self._record(AlertDelaysRow, "delays", since=since)
        assert delays is not None
        return delays

    def list_unsettled_rules(self, horizon: datetime) -> dict[str, int | None]:
        """Rules that settling up to an event time may change, even without an event.

        The value is the last settled event of the rule's oldest open alert, in microseconds; None
        if detected events or provisional alerts before the horizon are to be settled.
        """
        return self._pairs("list_unsettled_rules", horizon=horizon)

    def last_change(self, rules: Collection[str]) -> datetime | None:
        """When an alert of one of the rules changed last; None without alerts."""
        changed_at: datetime | None = self._value("last_change", rules=list(rules))
        return changed_at

    def time_before(self, seconds: float) -> datetime:
        """The present time of the clock that `updated_at` is of, less some seconds."""
        time: datetime = self._value("time_before", seconds=seconds)
        return time


def _as_list(values: Collection[str] | None) -> list[str] | None:
    if values is None:
        return None
    return list(values)
