"""Alerts of rules."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from sql.gateway import Gateway
from sql.present_alert import PresentAlertRow


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

    def to_json(self) -> dict[str, Any]:
        """The columns for a statement that inserts alerts."""
        return {
            "id": self.id,
            "eid": self.eid,
            "rule": self.rule,
            "version": self.version,
            "fingerprint": self.fingerprint,
            "key": self.key,
            "labels": self.labels,
            "annotations": self.annotations,
        }


@dataclass(frozen=True, slots=True)
class AlertLifetimeRow:
    """The columns of an alert that change with its events. Times are event times.

    `events`: their number. `fired_at`, `ends_at`: None until then. `settled`: the lifetime by
    settled events alone; None if there are none. `end_reason`: ended, as its condition was false, or
    no_data; None: not known.
    """

    state: str
    starts_at: datetime
    fired_at: datetime | None
    last_at: datetime
    ends_at: datetime | None
    events: int
    settled: Mapping[str, Any] | None
    end_reason: str | None = field(default=None, kw_only=True)

    def to_json(self) -> dict[str, Any]:
        """The columns for a statement that inserts or updates alerts."""
        return {
            "state": self.state,
            "starts_at": self.starts_at,
            "fired_at": self.fired_at,
            "last_at": self.last_at,
            "ends_at": self.ends_at,
            "events": self.events,
            "settled": self.settled,
            "end_reason": self.end_reason,
        }


@dataclass(frozen=True, slots=True)
class AlertStateRow:
    """An alert entered a state at an event time. `starts_at`: of its first event."""

    ts: datetime
    id: UUID
    eid: UUID
    rule: str
    state: str
    labels: Mapping[str, str]
    key: Mapping[str, Any]
    starts_at: datetime


@dataclass(frozen=True, slots=True)
class OpenAlertRow(AlertLifetimeRow):
    """An alert that has not ended."""

    id: UUID
    eid: UUID
    fingerprint: str
    key: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRow(PresentAlertRow):
    """An alert with what operators have noted.

    `last_at`: event time of its last event. `created_at`: when it was stored. `acknowledged_by`:
    author of the last acknowledgement. `assigned_to`: whom the last assignment names. `resolution`,
    `tag`: of the last note on what fixed it. `effect`: what that note says if it is no fix, such as
    `did not help`. `end_reason`: see `AlertLifetimeRow`.
    """

    last_at: datetime
    events: int
    created_at: datetime
    acknowledged_by: str | None
    assigned_to: str | None
    resolution: str | None
    tag: str | None
    effect: str | None
    end_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertFilter:
    """Which alerts to list.

    `rule`: the name of a rule with or without its group. `states`: None for all states.
    `include_all`: also alerts found in history, withdrawn by settling or `where`, or that ended
    before they fired. `active`: only those that fire now, also provisional ones. `labels`: labels
    that an alert must have. `text`: searched in rule, key, labels, annotations and notes. `since`,
    `until`: alerts of this range of event time; open alerts have no end. `after`: start and ID of
    the last alert of the previous page.
    """

    rule: str | None = None
    states: Collection[str] | None = None
    include_all: bool = False
    active: bool = False
    labels: Mapping[str, str] | None = None
    text: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    after: tuple[datetime, UUID] | None = None

    def parameters(self) -> dict[str, Any]:
        """Values of a statement that lists alerts."""
        cursor_ts, cursor_id = self.after or (None, None)
        return {
            "rule": self.rule,
            "states": None if self.states is None else list(self.states),
            "include_all": self.include_all,
            "active": self.active,
            "labels": Jsonb(dict(self.labels)) if self.labels else None,
            "text": self.text,
            "since": self.since,
            "until": self.until,
            "cursor_ts": cursor_ts,
            "cursor_id": cursor_id,
        }


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


NewAlert = tuple[AlertDescriptionRow, AlertLifetimeRow]


def to_json_row(description: AlertDescriptionRow, lifetime: AlertLifetimeRow) -> dict[str, Any]:
    """All columns of a new alert."""
    return {**description.to_json(), **lifetime.to_json()}


class AlertGateway(Gateway):
    """The alerts of all rules."""

    queries = "alerts"

    def list_open(self, rule: str) -> list[OpenAlertRow]:
        """The alerts of a rule that are neither ended nor withdrawn, in no order."""
        return self._records(OpenAlertRow, "list_open", rule=rule)

    def put(self, alerts: Iterable[NewAlert]) -> None:
        """Store alerts, or replace stored ones by ones with another first event.

        Of alerts with the same ID, the last one is stored.
        """
        rows = {description.id: to_json_row(description, life) for description, life in alerts}
        self._execute_rows("put", list(rows.values()))

    def update(self, lifetimes: Mapping[UUID, AlertLifetimeRow]) -> None:
        """Store the lifetimes of alerts, by ID, whose first event is unchanged."""
        rows = [{"id": alert, **lifetime.to_json()} for alert, lifetime in lifetimes.items()]
        self._execute_rows("update", rows)

    def withdraw(self, alert_ids: Collection[UUID]) -> None:
        """Withdraw provisional alerts that settling did not confirm."""
        if alert_ids:
            self._execute("withdraw", ids=list(alert_ids))

    def list_newest(self, selection: AlertFilter, *, limit: int | None) -> list[AlertRow]:
        """Alerts, newest first."""
        return self._records(
            AlertRow, "list_newest", id_prefix=None, limit=limit, **selection.parameters()
        )

    def count_newest(self, selection: AlertFilter) -> int:
        """The number of alerts that `list_newest` returns without a limit."""
        return self._count("list_newest", id_prefix=None, limit=None, **selection.parameters())

    def list_by_prefix(self, prefix: str, *, limit: int) -> list[AlertRow]:
        """The newest alerts of which the ID, or the ID of the first event, starts with a text.

        The text is a pattern of LIKE.
        """
        return self._records(
            AlertRow,
            "list_newest",
            id_prefix=prefix,
            limit=limit,
            **AlertFilter(include_all=True).parameters(),
        )

    def list_changes_of_state(
        self, start: datetime | None, end: datetime | None, rules: Sequence[str] | None = None
    ) -> list[AlertStateRow]:
        """When alerts entered their states, in a range of event time, oldest first.

        None: without that bound, of all rules.
        """
        names = None if rules is None else list(rules)
        return self._records(
            AlertStateRow, "list_changes_of_state", start=start, end=end, rules=names
        )

    def export(self) -> Iterator[ExportedAlertRow]:
        """All alerts, oldest first. Those that `where` rejects are withdrawn."""
        return self._stream(ExportedAlertRow, "export")

    def count_by_state(self) -> AlertCountsRow:
        """The numbers of events and alerts, without those of history."""
        counts = self._record(AlertCountsRow, "count_by_state")
        assert counts is not None
        return counts

    def count_alerts(self) -> dict[str, int]:
        """The number of alerts by state, without those of history."""
        return self._pairs("count_alerts")

    def count_active(self) -> int:
        """The number of alerts that fire now, also provisional ones."""
        return int(self._value("count_active"))

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
