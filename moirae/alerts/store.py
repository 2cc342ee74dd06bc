"""Events and alerts in PostgreSQL. The caller owns the transaction.

An alert is stored twice in one row: `settled` holds its lifetime by settled events alone, the other
columns its lifetime with detected events added. Detection can therefore be taken back, and settled
events are folded exactly once.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any
from uuid import UUID

import sql
from archiver.times import Micros, from_micros, optional_datetime, to_micros
from moirae.alerts.alerting_rule import AlertingRule
from moirae.alerts.event import Event, make_alert_id
from moirae.alerts.lifecycle import AlertLifetime, AlertTiming, Occurrence, alert_state, fold_events
from moirae.alerts.silence import DecideEnds, EndingAlert, SilenceReason
from sql.alerts import AlertDescriptionRow, AlertGateway, AlertLifetimeRow, NewAlert, OpenAlertRow
from sql.events import EventGateway, NewEventRow

# The columns of an alert that an event may change.
_changing_columns = attrgetter("state", "fired_at", "last_at", "ends_at", "events", "settled")


@dataclass
class _OpenAlert:
    """A stored alert that has not ended, with its lifetime by settled events.

    `starts`, `last`: event time.
    """

    row: OpenAlertRow
    settled: AlertLifetime | None
    starts: Micros
    last: Micros


@dataclass(frozen=True)
class _DesiredAlert:
    """The lifetime of an alert by settled events, if any, and as displayed."""

    settled: AlertLifetime | None
    displayed: AlertLifetime
    end_reason: SilenceReason | None = None

    @property
    def state(self) -> str:
        return alert_state(self.displayed, self.settled is not None)


@dataclass
class _AlertChanges:
    """Alerts to store, lifetimes to replace and alerts to withdraw, the latter two by ID."""

    new: list[NewAlert] = field(default_factory=list)
    lifetimes: dict[UUID, AlertLifetimeRow] = field(default_factory=dict)
    withdrawn: list[UUID] = field(default_factory=list)


@dataclass(frozen=True)
class _Settling:
    """What is settled, see `AlertStore.settle`; by default nothing is. `events`: by fingerprint."""

    events: Mapping[str, list[Event]] = field(default_factory=dict)
    silent_until: Micros | None = None
    decide_ends: DecideEnds | None = None


@dataclass
class _FoldedAlerts:
    """The alerts of a fingerprint: as stored and as they are to be, with the events by ID."""

    stored: list[_OpenAlert]
    desired: list[_DesiredAlert]
    events: Mapping[UUID, Event]

    def key_of(self, eid: UUID) -> Mapping[str, Any]:
        """The key values of the alert with a first event."""
        if eid in self.events:
            return self.events[eid].key
        return self.stored[0].row.key


class AlertStore:
    """The events and alerts of all rules, on one connection."""

    def __init__(self, connection: sql.Connection) -> None:
        self._alerts = AlertGateway(connection)
        self._events = EventGateway(connection)

    def record_detected(self, alerting_rule: AlertingRule, events: Sequence[Event]) -> None:
        """Store events in arrival order and show their alerts, which stay provisional."""
        self._upsert_events(alerting_rule, events, settled=False)
        fingerprints = {event.fingerprint for event in events}
        self._update_alerts(alerting_rule, fingerprints, _Settling())

    def replace_detected(
        self, alerting_rule: AlertingRule, events: Sequence[Event]
    ) -> Collection[UUID]:
        """Store the events that are detected now; others that are not settled are dropped.

        Returns the IDs of the dropped ones.
        """
        self._upsert_events(alerting_rule, events, settled=False)
        eids = [event.eid for event in events]
        dropped = self._events.delete_other_unsettled(alerting_rule.rule, eids)
        fingerprints = {event.fingerprint for event in events}.union(dropped.values())
        if fingerprints:
            self._update_alerts(alerting_rule, fingerprints, _Settling())
        return dropped.keys()

    def settle(
        self,
        alerting_rule: AlertingRule,
        events: Sequence[Event],
        horizon: Micros,
        silent_until: Micros,
        decide_ends: DecideEnds | None = None,
    ) -> Collection[UUID]:
        """Settle a rule up to `horizon`, an event time.

        `events`: all events before the horizon that are not settled yet, in (ts, eid) order.
        `silent_until`: no other event before this time will follow; at least the horizon.
        `decide_ends`: of alerts that fired and have no further events; None: they end.
        Detected events before the horizon that are not among `events` are dropped; returns their
        IDs.
        """
        self._upsert_events(alerting_rule, events, settled=True)
        dropped = self._events.delete_unsettled(alerting_rule.rule, from_micros(horizon))
        events_by_fingerprint: dict[str, list[Event]] = defaultdict(list)
        for event in events:
            events_by_fingerprint[event.fingerprint].append(event)
        fingerprints = set(events_by_fingerprint)
        fingerprints.update(dropped.values())
        settling = _Settling(events_by_fingerprint, silent_until, decide_ends)
        self._update_alerts(alerting_rule, fingerprints, settling)
        return dropped.keys()

    def _upsert_events(
        self, alerting_rule: AlertingRule, events: Sequence[Event], settled: bool
    ) -> None:
        if not events:
            return
        rule, version = alerting_rule.rule, alerting_rule.version
        rows = [make_event_row(rule, version, event, settled) for event in events]
        if alerting_rule.is_early and not settled:
            self._events.put_early(rows)
        else:
            self._events.put(rows)

    def _update_alerts(
        self, alerting_rule: AlertingRule, fingerprints: set[str], settling: _Settling
    ) -> None:
        """Fold settled and detected events into lifetimes and write the alerts that changed."""
        open_alerts = self._load_open_alerts(alerting_rule.rule)
        if settling.silent_until is not None:
            fingerprints = fingerprints | open_alerts.keys()
        unsettled_events = self._load_unsettled_events(alerting_rule.rule, fingerprints)
        changes = _AlertChanges()
        folded: list[_FoldedAlerts] = []
        for fingerprint in sorted(fingerprints):
            stored = open_alerts.get(fingerprint, [])
            settled = settling.events.get(fingerprint, [])
            unsettled = unsettled_events.get(fingerprint, [])
            events_by_id = {event.eid: event for event in [*settled, *unsettled]}
            alerts = _fold_alerts(
                stored, settled, unsettled, alerting_rule.timing, settling.silent_until
            )
            folded.append(_FoldedAlerts(stored, alerts, events_by_id))
        if settling.decide_ends is not None:
            _apply_ends(folded, settling.decide_ends)
        for of_fingerprint in folded:
            _collect_changes(alerting_rule, of_fingerprint, changes)
        self._alerts.put(changes.new)
        self._alerts.update(changes.lifetimes)
        self._alerts.withdraw(changes.withdrawn)

    def _load_open_alerts(self, rule: str) -> dict[str, list[_OpenAlert]]:
        """The open alerts of a rule by fingerprint."""
        alerts: dict[str, list[_OpenAlert]] = defaultdict(list)
        for row in self._alerts.list_open(rule):
            settled = None
            if row.settled is not None:
                settled = _lifetime_from_json(row.settled)
            starts = to_micros(row.starts_at)
            alert = _OpenAlert(row, settled, starts=starts, last=to_micros(row.last_at))
            alerts[row.fingerprint].append(alert)
        return alerts

    def _load_unsettled_events(
        self, rule: str, fingerprints: Iterable[str]
    ) -> dict[str, list[Event]]:
        """The detected events of some fingerprints that are not settled, by fingerprint."""
        events: dict[str, list[Event]] = defaultdict(list)
        for row in self._events.list_unsettled(rule, fingerprints):
            event = Event(row.eid, to_micros(row.ts), row.key, row.fingerprint, row.attributes)
            events[event.fingerprint].append(event)
        return events


def _apply_ends(folded: Sequence[_FoldedAlerts], decide_ends: DecideEnds) -> None:
    """Have alerts that fired and have no further events end as decided, or stay open."""
    positions: list[tuple[_FoldedAlerts, int]] = []
    ending: list[EndingAlert] = []
    for of_fingerprint in folded:
        for index, alert in enumerate(of_fingerprint.desired):
            lifetime = alert.displayed
            if lifetime.ended is None or lifetime.fired is None:
                continue
            following = of_fingerprint.desired[index + 1 : index + 2]
            positions.append((of_fingerprint, index))
            ending.append(
                EndingAlert(
                    eid=lifetime.eid,
                    key=of_fingerprint.key_of(lifetime.eid),
                    last=lifetime.last,
                    ends=lifetime.ended,
                    next_starts=following[0].displayed.starts if following else None,
                )
            )
    if not ending:
        return
    for (of_fingerprint, index), end in zip(positions, decide_ends(ending), strict=True):
        lifetime = replace(of_fingerprint.desired[index].displayed, ended=end.at)
        of_fingerprint.desired[index] = _DesiredAlert(lifetime, lifetime, end.reason)


def _collect_changes(
    alerting_rule: AlertingRule, alerts: _FoldedAlerts, changes: _AlertChanges
) -> None:
    """Add what makes the stored alerts of a fingerprint the desired ones."""
    unmatched = list(alerts.stored)
    for alert in alerts.desired:
        lifetime = make_lifetime_row(alert.displayed, alert.state, alert.settled, alert.end_reason)
        open_alert = _match_open_alert(unmatched, alert)
        if open_alert is not None:
            unmatched.remove(open_alert)
            is_confirmed = open_alert.settled is None and alert.settled is not None
            may_differ = alerting_rule.is_early and is_confirmed
            if open_alert.row.eid == alert.displayed.eid and not may_differ:
                if _changing_columns(open_alert.row) != _changing_columns(lifetime):
                    changes.lifetimes[open_alert.row.id] = lifetime
                continue
        description = describe_alert(alerting_rule, alerts.events[alert.displayed.eid])
        if open_alert is not None:
            description = replace(description, id=open_alert.row.id)
        changes.new.append((description, lifetime))
    for open_alert in unmatched:
        if open_alert.settled is None:
            changes.withdrawn.append(open_alert.row.id)


def _fold_alerts(
    stored: list[_OpenAlert],
    settled_events: list[Event],
    unsettled_events: list[Event],
    timing: AlertTiming,
    silent_until: Micros | None,
) -> list[_DesiredAlert]:
    """The alerts of one fingerprint after these events."""
    settled_lifetimes = [alert.settled for alert in stored if alert.settled is not None]
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


def _match_open_alert(open_alerts: list[_OpenAlert], desired: _DesiredAlert) -> _OpenAlert | None:
    """The stored alert with the same first event, else a provisional one that overlaps.

    Settling may find another first event than detection did; the alert keeps its row and ID.
    """
    lifetime = desired.displayed
    for alert in open_alerts:
        if alert.row.eid == lifetime.eid:
            return alert
    for alert in open_alerts:
        overlaps = alert.starts <= lifetime.last and lifetime.starts <= alert.last
        if alert.settled is None and overlaps:
            return alert
    return None


def describe_alert(alerting_rule: AlertingRule, event: Event) -> AlertDescriptionRow:
    """The columns of an alert that depend on its first event, including its ID."""
    return AlertDescriptionRow(
        id=make_alert_id(alerting_rule.rule, event.eid),
        eid=event.eid,
        rule=alerting_rule.rule,
        version=alerting_rule.version,
        fingerprint=event.fingerprint,
        key=event.key,
        labels=alerting_rule.labels,
        annotations=alerting_rule.render_annotations(event),
    )


def make_lifetime_row(
    lifetime: AlertLifetime,
    state: str,
    settled_lifetime: AlertLifetime | None = None,
    end_reason: SilenceReason | None = None,
) -> AlertLifetimeRow:
    """A lifetime as it is stored, with that by settled events alone; None if there is none."""
    settled = None
    if settled_lifetime is not None:
        settled = _lifetime_to_json(settled_lifetime)
    starts_at = from_micros(lifetime.starts)
    # Most alerts have one event: its time is converted once.
    return AlertLifetimeRow(
        state=state,
        starts_at=starts_at,
        fired_at=starts_at
        if lifetime.fired == lifetime.starts
        else optional_datetime(lifetime.fired),
        last_at=starts_at if lifetime.last == lifetime.starts else from_micros(lifetime.last),
        ends_at=optional_datetime(lifetime.ended),
        events=lifetime.events,
        settled=settled,
        end_reason=end_reason,
    )


def make_event_row(rule: str, version: str, event: Event, settled: bool) -> NewEventRow:
    """An event with its rule, as it is stored."""
    return NewEventRow(
        eid=event.eid,
        rule=rule,
        version=version,
        ts=from_micros(event.ts),
        fingerprint=event.fingerprint,
        key=event.key,
        attributes=event.attributes,
        settled=settled,
    )


def _lifetime_to_json(lifetime: AlertLifetime) -> dict[str, Any]:
    return {**vars(lifetime), "eid": str(lifetime.eid)}


def _lifetime_from_json(stored: Mapping[str, Any]) -> AlertLifetime:
    return AlertLifetime(**{**stored, "eid": UUID(stored["eid"])})
