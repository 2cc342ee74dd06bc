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
from moirae.alerts.event import Event, alert_id
from moirae.alerts.lifecycle import Life, Occurrence, Timing, fold, state
from moirae.alerts.source import Source

_QUERIES = sql.load("alerts")


@dataclass
class _Row:
    """An alert that is not over."""

    id: UUID
    eid: UUID
    fingerprint: str
    settled: Life | None
    starts: int
    last: int
    shown: tuple[Any, ...]


@dataclass(frozen=True)
class _Wanted:
    """How an alert should stand: by settled events, if any, and as shown."""

    settled: Life | None
    shown: Life

    @property
    def state(self) -> str:
        return state(self.shown, self.settled is not None)


class AlertStore:
    """The events and alerts of all rules, on one connection."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection

    def detect(self, source: Source, events: Sequence[Event]) -> None:
        """Events seen in arrival order, beyond what is settled: kept, and shown as provisional life."""
        self._put_events(source, events, settled=False)
        self._tell(source, {}, {e.fingerprint for e in events}, None)

    def settle(self, source: Source, events: Sequence[Event], horizon: int, silence: int) -> None:
        """All events of the rule before the horizon (microseconds) that are not settled yet, in (ts, eid) order.

        `silence`: the event time before which no other event will come; at least the horizon.
        """
        self._put_events(source, events, settled=True)
        dropped = self._connection.execute(
            _QUERIES["drop_unsettled"], {"rule": source.rule, "horizon": from_micros(horizon)}
        )
        touched = {e.fingerprint for e in events} | {row[0] for row in dropped}
        by_fingerprint: dict[str, list[Event]] = {}
        for event in events:
            by_fingerprint.setdefault(event.fingerprint, []).append(event)
        self._tell(source, by_fingerprint, touched, silence)

    def open_since(self, horizon: int) -> dict[str, int | None]:
        """Rules for which settling up to the horizon may change something even without an event (microseconds).

        The last settled event of those of a rule's open alerts that is the oldest; None: detected events or
        provisional alerts before the horizon, which settling confirms or takes back.
        """
        rows = self._connection.execute(_QUERIES["open_since"], {"horizon": from_micros(horizon)})
        return dict(rows.fetchall())

    def _put_events(self, source: Source, events: Sequence[Event], settled: bool) -> None:
        if events:
            with self._connection.cursor() as cursor:
                cursor.executemany(_QUERIES["put_event"], [event_values(source, event, settled) for event in events])

    def _tell(
        self,
        source: Source,
        settled: Mapping[str, list[Event]],
        touched: set[str],
        silence: int | None,
    ) -> None:
        """Fold settled events into lives, detected ones onto them, and write what has changed."""
        open_rows = self._open(source.rule)
        keys = touched | (open_rows.keys() if silence is not None else set())
        unsettled = self._unsettled(source.rule, keys)
        # Nothing is read back: the statements go out together.
        with self._connection.pipeline():
            for key in sorted(keys):
                rows, events = open_rows.get(key, []), [*settled.get(key, []), *unsettled.get(key, [])]
                wanted = _lives(rows, settled.get(key, []), unsettled.get(key, []), source.timing, silence)
                self._write(source, rows, wanted, {event.eid: event for event in events})

    def _write(self, source: Source, rows: list[_Row], wanted: list[_Wanted], events: Mapping[UUID, Event]) -> None:
        free = list(rows)
        for want in wanted:
            row = _match(free, want)
            if row is not None:
                free.remove(row)
            if row is not None and row.eid == want.shown.eid:
                if row.shown != _shown(want):
                    self._connection.execute(_QUERIES["move_alert"], {"id": row.id, **_alert_values(want)})
            else:
                begun = began(source, events[want.shown.eid])
                number = row.id if row else begun["id"]
                self._connection.execute(_QUERIES["put_alert"], {**begun, "id": number, **_alert_values(want)})
        for row in free:
            if row.settled is None:
                self._connection.execute(_QUERIES["withdraw"], {"id": row.id})

    def _open(self, rule: str) -> dict[str, list[_Row]]:
        with self._connection.cursor(row_factory=dict_row) as cursor:
            found = cursor.execute(_QUERIES["open_alerts"], {"rule": rule}).fetchall()
        rows: dict[str, list[_Row]] = {}
        for one in found:
            settled = None if one["settled"] is None else _life(one["settled"])
            shown = (one["state"], one["fired_at"], one["last_at"], one["ends_at"], one["events"], one["settled"])
            row = _Row(
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

    def _unsettled(self, rule: str, fingerprints: Iterable[str]) -> dict[str, list[Event]]:
        with self._connection.cursor(row_factory=dict_row) as cursor:
            found = cursor.execute(_QUERIES["unsettled"], {"rule": rule, "fingerprints": list(fingerprints)}).fetchall()
        events: dict[str, list[Event]] = {}
        for one in found:
            event = Event(one["eid"], to_micros(one["ts"]), one["key"], one["fingerprint"], one["attributes"])
            events.setdefault(event.fingerprint, []).append(event)
        return events


def _lives(
    rows: list[_Row], settled: list[Event], unsettled: list[Event], timing: Timing, silence: int | None
) -> list[_Wanted]:
    going_on = next((row.settled for row in rows if row.settled is not None), None)
    settled_lives = fold(going_on, _occurrences(settled), timing, silence)
    last = settled_lives[-1] if settled_lives and settled_lives[-1].ended is None else None
    shown_lives = fold(last, _occurrences(unsettled), timing, None)
    wanted = [_Wanted(life, life) for life in settled_lives if life is not last]
    if last is not None:
        # Ended by detected events only is not ended yet.
        wanted.append(_Wanted(last, Life(**{**asdict(shown_lives.pop(0)), "ended": None})))
    return wanted + [_Wanted(None, Life(**{**asdict(life), "ended": None})) for life in shown_lives]


def _occurrences(events: Iterable[Event]) -> list[Occurrence]:
    return [Occurrence(event.ts, event.eid) for event in events]


def _match(rows: list[_Row], want: _Wanted) -> _Row | None:
    """The row that this alert goes on in: the same first event, or, where detection had another, the same time."""
    for row in rows:
        if row.eid == want.shown.eid:
            return row
    for row in rows:
        if row.settled is None and row.starts <= want.shown.last and want.shown.starts <= row.last:
            return row
    return None


def _shown(want: _Wanted) -> tuple[Any, ...]:
    values = _alert_values(want)
    settled = None if want.settled is None else _life_json(want.settled)
    return (*(values[name] for name in ("state", "fired_at", "last_at", "ends_at", "events")), settled)


def began(source: Source, event: Event) -> dict[str, Any]:
    """The columns of an alert that its first event decides, and the id that follows from it."""
    return {
        "id": alert_id(source.rule, event.eid),
        "eid": event.eid,
        "rule": source.rule,
        "version": source.version,
        "fingerprint": event.fingerprint,
        "key": Jsonb(sql.storable(event.key)),
        "labels": Jsonb(sql.storable(source.labels)),
        "annotations": Jsonb(sql.storable(source.render(event))),
    }


def _alert_values(want: _Wanted) -> dict[str, Any]:
    shown = want.shown
    return {
        "state": want.state,
        "starts_at": from_micros(shown.starts),
        "fired_at": optional_datetime(shown.fired),
        "last_at": from_micros(shown.last),
        "ends_at": optional_datetime(shown.ended),
        "events": shown.events,
        "settled": None if want.settled is None else Jsonb(_life_json(want.settled)),
    }


def event_values(source: Source, event: Event, settled: bool) -> dict[str, Any]:
    """An event as it is stored."""
    return {
        "eid": event.eid,
        "rule": source.rule,
        "version": source.version,
        "ts": from_micros(event.ts),
        "fingerprint": event.fingerprint,
        "key": Jsonb(sql.storable(event.key)),
        "attributes": Jsonb(sql.storable(event.attributes)),
        "settled": settled,
    }


def _life_json(life: Life) -> dict[str, Any]:
    return {**asdict(life), "eid": str(life.eid)}


def _life(stored: Mapping[str, Any]) -> Life:
    return Life(**{**stored, "eid": UUID(stored["eid"])})
