"""Events and alerts in PostgreSQL, kept in step: the caller owns the transaction.

A settled life is stored beside what is shown: `settled` says where it stands by settled events alone, the other
columns what detected events make of it. So detection can be taken back, and settling is folded exactly once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
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


@dataclass
class _OpenAlert:
    """An alert that is not over."""

    id: UUID
    eid: UUID
    fingerprint: str
    settled: AlertLifetime | None
    starts: int
    last: int
    stored_values: tuple[Any, ...]


@dataclass(frozen=True)
class _DesiredAlert:
    """How an alert should stand: by settled events, if any, and as shown."""

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
        """Events seen in arrival order, beyond what is settled: kept, and shown as provisional life."""
        self._upsert_events(alerting_rule, events, settled=False)
        self._update_alerts(alerting_rule, {}, {e.fingerprint for e in events}, None)

    def settle(
        self, alerting_rule: AlertingRule, events: Sequence[Event], horizon: int, silent_until: int
    ) -> None:
        """All events of the rule before the horizon (microseconds) that are not settled yet, in (ts, eid) order.

        `silence`: the event time before which no other event will come; at least the horizon.
        """
        self._upsert_events(alerting_rule, events, settled=True)
        dropped = self._connection.execute(
            _QUERIES["drop_unsettled"],
            {"rule": alerting_rule.rule, "horizon": from_micros(horizon)},
        )
        touched = {e.fingerprint for e in events} | {row[0] for row in dropped}
        by_fingerprint: dict[str, list[Event]] = {}
        for event in events:
            by_fingerprint.setdefault(event.fingerprint, []).append(event)
        self._update_alerts(alerting_rule, by_fingerprint, touched, silent_until)

    def rules_with_open_alerts(self, horizon: int) -> dict[str, int | None]:
        """Rules for which settling up to the horizon may change something even without an event (microseconds).

        The last settled event of those of a rule's open alerts that is the oldest; None: detected events or
        provisional alerts before the horizon, which settling confirms or takes back.
        """
        rows = self._connection.execute(_QUERIES["open_since"], {"horizon": from_micros(horizon)})
        return dict(rows.fetchall())

    def _upsert_events(self, source: AlertingRule, events: Sequence[Event], settled: bool) -> None:
        if events:
            with self._connection.cursor() as cursor:
                cursor.executemany(
                    _QUERIES["put_event"],
                    [event_columns(source, event, settled) for event in events],
                )

    def _update_alerts(
        self,
        source: AlertingRule,
        settled: Mapping[str, list[Event]],
        touched: set[str],
        silence: int | None,
    ) -> None:
        """Fold settled events into lives, detected ones onto them, and write what has changed."""
        open_rows = self._load_open_alerts(source.rule)
        keys = touched | (open_rows.keys() if silence is not None else set())
        unsettled = self._load_unsettled_events(source.rule, keys)
        # Nothing is read back: the statements go out together.
        with self._connection.pipeline():
            for key in sorted(keys):
                rows, events = (
                    open_rows.get(key, []),
                    [*settled.get(key, []), *unsettled.get(key, [])],
                )
                wanted = _fold_alerts(
                    rows, settled.get(key, []), unsettled.get(key, []), source.timing, silence
                )
                self._write_alerts(source, rows, wanted, {event.eid: event for event in events})

    def _write_alerts(
        self,
        source: AlertingRule,
        rows: list[_OpenAlert],
        wanted: list[_DesiredAlert],
        events: Mapping[UUID, Event],
    ) -> None:
        free = list(rows)
        for want in wanted:
            row = _match_open_alert(free, want)
            if row is not None:
                free.remove(row)
            if row is not None and row.eid == want.displayed.eid:
                if row.stored_values != _displayed_values(want):
                    self._connection.execute(
                        _QUERIES["move_alert"], {"id": row.id, **_alert_columns(want)}
                    )
            else:
                begun = first_event_columns(source, events[want.displayed.eid])
                number = row.id if row else begun["id"]
                self._connection.execute(
                    _QUERIES["put_alert"], {**begun, "id": number, **_alert_columns(want)}
                )
        for row in free:
            if row.settled is None:
                self._connection.execute(_QUERIES["withdraw"], {"id": row.id})

    def _load_open_alerts(self, rule: str) -> dict[str, list[_OpenAlert]]:
        with self._connection.cursor(row_factory=dict_row) as cursor:
            found = cursor.execute(_QUERIES["open_alerts"], {"rule": rule}).fetchall()
        rows: dict[str, list[_OpenAlert]] = {}
        for one in found:
            settled = None if one["settled"] is None else _lifetime_from_json(one["settled"])
            shown = (
                one["state"],
                one["fired_at"],
                one["last_at"],
                one["ends_at"],
                one["events"],
                one["settled"],
            )
            row = _OpenAlert(
                one["id"],
                one["eid"],
                one["fingerprint"],
                settled,
                to_micros(one["starts_at"]),
                to_micros(one["last_at"]),
                shown,
            )
            rows.setdefault(row.fingerprint, []).append(row)
        return rows

    def _load_unsettled_events(
        self, rule: str, fingerprints: Iterable[str]
    ) -> dict[str, list[Event]]:
        with self._connection.cursor(row_factory=dict_row) as cursor:
            found = cursor.execute(
                _QUERIES["unsettled"], {"rule": rule, "fingerprints": list(fingerprints)}
            ).fetchall()
        events: dict[str, list[Event]] = {}
        for one in found:
            event = Event(
                one["eid"], to_micros(one["ts"]), one["key"], one["fingerprint"], one["attributes"]
            )
            events.setdefault(event.fingerprint, []).append(event)
        return events


def _fold_alerts(
    rows: list[_OpenAlert],
    settled: list[Event],
    unsettled: list[Event],
    timing: AlertTiming,
    silence: int | None,
) -> list[_DesiredAlert]:
    going_on = next((row.settled for row in rows if row.settled is not None), None)
    settled_lives = fold_events(going_on, _to_occurrences(settled), timing, silence)
    last = settled_lives[-1] if settled_lives and settled_lives[-1].ended is None else None
    shown_lives = fold_events(last, _to_occurrences(unsettled), timing, None)
    wanted = [_DesiredAlert(life, life) for life in settled_lives if life is not last]
    if last is not None:
        # Ended by detected events only is not ended yet.
        wanted.append(
            _DesiredAlert(last, AlertLifetime(**{**asdict(shown_lives.pop(0)), "ended": None}))
        )
    return wanted + [
        _DesiredAlert(None, AlertLifetime(**{**asdict(life), "ended": None}))
        for life in shown_lives
    ]


def _to_occurrences(events: Iterable[Event]) -> list[Occurrence]:
    return [Occurrence(event.ts, event.eid) for event in events]


def _match_open_alert(rows: list[_OpenAlert], want: _DesiredAlert) -> _OpenAlert | None:
    """The row that this alert goes on in: the same first event, or, where detection had another, the same time."""
    for row in rows:
        if row.eid == want.displayed.eid:
            return row
    for row in rows:
        if (
            row.settled is None
            and row.starts <= want.displayed.last
            and want.displayed.starts <= row.last
        ):
            return row
    return None


def _displayed_values(want: _DesiredAlert) -> tuple[Any, ...]:
    values = _alert_columns(want)
    settled = None if want.settled is None else _lifetime_to_json(want.settled)
    return (
        *(values[name] for name in ("state", "fired_at", "last_at", "ends_at", "events")),
        settled,
    )


def first_event_columns(alerting_rule: AlertingRule, event: Event) -> dict[str, Any]:
    """The columns of an alert that its first event decides, and the id that follows from it."""
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


def _alert_columns(want: _DesiredAlert) -> dict[str, Any]:
    shown = want.displayed
    return {
        "state": want.state,
        "starts_at": from_micros(shown.starts),
        "fired_at": optional_datetime(shown.fired),
        "last_at": from_micros(shown.last),
        "ends_at": optional_datetime(shown.ended),
        "events": shown.events,
        "settled": None if want.settled is None else Jsonb(_lifetime_to_json(want.settled)),
    }


def event_columns(alerting_rule: AlertingRule, event: Event, settled: bool) -> dict[str, Any]:
    """An event as it is stored."""
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


def _lifetime_to_json(life: AlertLifetime) -> dict[str, Any]:
    return {**asdict(life), "eid": str(life.eid)}


def _lifetime_from_json(stored: Mapping[str, Any]) -> AlertLifetime:
    return AlertLifetime(**{**stored, "eid": UUID(stored["eid"])})
