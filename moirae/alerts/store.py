"""Events and alerts in PostgreSQL. The caller owns the transaction.

An alert is stored twice in one row: `settled` holds its lifetime by settled events alone, the other
columns its lifetime with detected events added. Detection can therefore be taken back, and settled
events are folded exactly once.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

import sql
from archiver.times import from_micros, optional_datetime, to_micros
from moirae.alerts.alerting_rule import AlertingRule
from moirae.alerts.event import Event, make_alert_id
from moirae.alerts.lifecycle import AlertLifetime, AlertTiming, Occurrence, alert_state, fold_events

_QUERIES = sql.load("alerts")
_DISPLAYED_COLUMNS = ("state", "fired_at", "last_at", "ends_at", "events")


@dataclass
class _OpenAlert:
    """A stored alert that has not ended. `starts`, `last`: event time in microseconds."""

    id: UUID
    eid: UUID
    fingerprint: str
    settled: AlertLifetime | None
    starts: int
    last: int
    displayed_values: tuple[Any, ...]


@dataclass(frozen=True)
class _DesiredAlert:
    """The lifetime of an alert by settled events, if any, and as displayed."""

    settled: AlertLifetime | None
    displayed: AlertLifetime

    @property
    def state(self) -> str:
        return alert_state(self.displayed, self.settled is not None)


class AlertStore:
    """The events and alerts of all rules, on one connection."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection

    def record_detected(self, alerting_rule: AlertingRule, events: Sequence[Event]) -> None:
        """Store events in arrival order and show their alerts, which stay provisional."""
        self._upsert_events(alerting_rule, events, settled=False)
        fingerprints = {event.fingerprint for event in events}
        self._update_alerts(alerting_rule, {}, fingerprints, silent_until=None)

    def settle(
        self, alerting_rule: AlertingRule, events: Sequence[Event], horizon: int, silent_until: int
    ) -> None:
        """Settle a rule up to `horizon` (event time in microseconds).

        `events`: all events before the horizon that are not settled yet, in (ts, eid) order.
        `silent_until`: no other event before this time will follow; at least the horizon.
        Detected events before the horizon that are not among `events` are dropped.
        """
        self._upsert_events(alerting_rule, events, settled=True)
        values = {"rule": alerting_rule.rule, "horizon": from_micros(horizon)}
        dropped = self._connection.execute(_QUERIES["drop_unsettled"], values)
        events_by_fingerprint: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            events_by_fingerprint[event.fingerprint].append(event)
        fingerprints = set(events_by_fingerprint)
        fingerprints.update(row[0] for row in dropped)
        self._update_alerts(alerting_rule, events_by_fingerprint, fingerprints, silent_until)

    def rules_with_open_alerts(self, horizon: int) -> dict[str, int | None]:
        """Rules whose alerts may change by settling up to `horizon`, even without an event.

        The value is the last settled event of the rule's oldest open alert, in microseconds; None
        if detected events or provisional alerts before the horizon await settling.
        """
        rows = self._connection.execute(_QUERIES["open_since"], {"horizon": from_micros(horizon)})
        return dict(rows.fetchall())

    def _upsert_events(
        self, alerting_rule: AlertingRule, events: Sequence[Event], settled: bool
    ) -> None:
        if not events:
            return
        rows = [event_columns(alerting_rule, event, settled) for event in events]
        with self._connection.cursor() as cursor:
            cursor.executemany(_QUERIES["put_event"], rows)

    def _update_alerts(
        self,
        alerting_rule: AlertingRule,
        settled_events: Mapping[str, list[Event]],
        fingerprints: set[str],
        silent_until: int | None,
    ) -> None:
        """Fold settled and detected events into lifetimes and write the alerts that changed."""
        open_alerts = self._load_open_alerts(alerting_rule.rule)
        if silent_until is not None:
            fingerprints = fingerprints | open_alerts.keys()
        unsettled_events = self._load_unsettled_events(alerting_rule.rule, fingerprints)
        # No result is read, so the statements need one round trip.
        with self._connection.pipeline():
            for fingerprint in sorted(fingerprints):
                stored = open_alerts.get(fingerprint, [])
                settled = settled_events.get(fingerprint, [])
                unsettled = unsettled_events.get(fingerprint, [])
                desired = _fold_alerts(
                    stored, settled, unsettled, alerting_rule.timing, silent_until
                )
                events_by_id = {event.eid: event for event in [*settled, *unsettled]}
                self._write_alerts(alerting_rule, stored, desired, events_by_id)

    def _write_alerts(
        self,
        alerting_rule: AlertingRule,
        stored: list[_OpenAlert],
        desired: list[_DesiredAlert],
        events_by_id: Mapping[UUID, Event],
    ) -> None:
        unmatched = list(stored)
        for alert in desired:
            row = _match_open_alert(unmatched, alert)
            if row is not None:
                unmatched.remove(row)
            if row is not None and row.eid == alert.displayed.eid:
                self._update_alert(row, alert)
                continue
            columns = first_event_columns(alerting_rule, events_by_id[alert.displayed.eid])
            if row is not None:
                columns["id"] = row.id
            self._connection.execute(_QUERIES["put_alert"], {**columns, **_alert_columns(alert)})
        for row in unmatched:
            if row.settled is None:
                self._connection.execute(_QUERIES["withdraw"], {"id": row.id})

    def _update_alert(self, row: _OpenAlert, alert: _DesiredAlert) -> None:
        if row.displayed_values != _displayed_values(alert):
            values = {"id": row.id, **_alert_columns(alert)}
            self._connection.execute(_QUERIES["move_alert"], values)

    def _load_open_alerts(self, rule: str) -> dict[str, list[_OpenAlert]]:
        """The open alerts of a rule by fingerprint."""
        with self._connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(_QUERIES["open_alerts"], {"rule": rule}).fetchall()
        alerts: dict[str, list[_OpenAlert]] = defaultdict(list)
        for row in rows:
            settled = None
            if row["settled"] is not None:
                settled = _lifetime_from_json(row["settled"])
            displayed = [row[name] for name in _DISPLAYED_COLUMNS]
            alert = _OpenAlert(
                id=row["id"],
                eid=row["eid"],
                fingerprint=row["fingerprint"],
                settled=settled,
                starts=to_micros(row["starts_at"]),
                last=to_micros(row["last_at"]),
                displayed_values=(*displayed, row["settled"]),
            )
            alerts[alert.fingerprint].append(alert)
        return alerts

    def _load_unsettled_events(
        self, rule: str, fingerprints: Iterable[str]
    ) -> dict[str, list[Event]]:
        """The detected events of some fingerprints that are not settled, by fingerprint."""
        values = {"rule": rule, "fingerprints": list(fingerprints)}
        with self._connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(_QUERIES["unsettled"], values).fetchall()
        events: dict[str, list[Event]] = defaultdict(list)
        for row in rows:
            ts = to_micros(row["ts"])
            event = Event(row["eid"], ts, row["key"], row["fingerprint"], row["attributes"])
            events[event.fingerprint].append(event)
        return events


def _fold_alerts(
    stored: list[_OpenAlert],
    settled_events: list[Event],
    unsettled_events: list[Event],
    timing: AlertTiming,
    silent_until: int | None,
) -> list[_DesiredAlert]:
    """The alerts of one fingerprint after these events."""
    settled_lifetimes = [row.settled for row in stored if row.settled is not None]
    open_lifetime = next(iter(settled_lifetimes), None)
    settled = fold_events(open_lifetime, _to_occurrences(settled_events), timing, silent_until)
    open_lifetime = None
    if settled and settled[-1].ended is None:
        open_lifetime = settled.pop()
    alerts = [_DesiredAlert(lifetime, lifetime) for lifetime in settled]
    displayed = fold_events(open_lifetime, _to_occurrences(unsettled_events), timing, None)
    # Detected events never end an alert: settling does.
    displayed = [replace(lifetime, ended=None) for lifetime in displayed]
    if open_lifetime is not None:
        alerts.append(_DesiredAlert(open_lifetime, displayed.pop(0)))
    alerts += [_DesiredAlert(None, lifetime) for lifetime in displayed]
    return alerts


def _to_occurrences(events: Iterable[Event]) -> list[Occurrence]:
    return [Occurrence(event.ts, event.eid) for event in events]


def _match_open_alert(rows: list[_OpenAlert], alert: _DesiredAlert) -> _OpenAlert | None:
    """The stored row of an alert: with the same first event, else a provisional one that overlaps.

    Settling may find another first event than detection did; the alert keeps its row and ID.
    """
    lifetime = alert.displayed
    for row in rows:
        if row.eid == lifetime.eid:
            return row
    for row in rows:
        if row.settled is None and row.starts <= lifetime.last and lifetime.starts <= row.last:
            return row
    return None


def _displayed_values(alert: _DesiredAlert) -> tuple[Any, ...]:
    columns = _alert_columns(alert)
    settled = None
    if alert.settled is not None:
        settled = _lifetime_to_json(alert.settled)
    return (*(columns[name] for name in _DISPLAYED_COLUMNS), settled)


def first_event_columns(alerting_rule: AlertingRule, event: Event) -> dict[str, Any]:
    """The columns of an alert that depend on its first event, including its ID."""
    return {
        "id": make_alert_id(alerting_rule.rule, event.eid),
        "eid": event.eid,
        "rule": alerting_rule.rule,
        "version": alerting_rule.version,
        "fingerprint": event.fingerprint,
        "key": Jsonb(sql.replace_nul(event.key)),
        "labels": Jsonb(sql.replace_nul(alerting_rule.labels)),
        "annotations": Jsonb(sql.replace_nul(alerting_rule.render_annotations(event))),
    }


def _alert_columns(alert: _DesiredAlert) -> dict[str, Any]:
    lifetime = alert.displayed
    settled = None
    if alert.settled is not None:
        settled = Jsonb(_lifetime_to_json(alert.settled))
    return {
        "state": alert.state,
        "starts_at": from_micros(lifetime.starts),
        "fired_at": optional_datetime(lifetime.fired),
        "last_at": from_micros(lifetime.last),
        "ends_at": optional_datetime(lifetime.ended),
        "events": lifetime.events,
        "settled": settled,
    }


def event_columns(alerting_rule: AlertingRule, event: Event, settled: bool) -> dict[str, Any]:
    """The columns of an event in table `events`."""
    return {
        "eid": event.eid,
        "rule": alerting_rule.rule,
        "version": alerting_rule.version,
        "ts": from_micros(event.ts),
        "fingerprint": event.fingerprint,
        "key": Jsonb(sql.replace_nul(event.key)),
        "attributes": Jsonb(sql.replace_nul(event.attributes)),
        "settled": settled,
    }


def _lifetime_to_json(lifetime: AlertLifetime) -> dict[str, Any]:
    return {**asdict(lifetime), "eid": str(lifetime.eid)}


def _lifetime_from_json(stored: Mapping[str, Any]) -> AlertLifetime:
    return AlertLifetime(**{**stored, "eid": UUID(stored["eid"])})
