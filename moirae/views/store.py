"""Views in PostgreSQL: what is to be found of the past of rules, and what was found.

Everything may be stored again: events, alerts and contexts once by their ids, numbers once by event. The view says last
that it is found, so that one that was killed is found again.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from psycopg import Connection
from psycopg.types.json import Jsonb

import sql
from archiver.times import from_micros, optional_datetime
from moirae.alerts.event import Event
from moirae.alerts.source import Source
from moirae.alerts.store import began, event_values
from moirae.judging.around import Found
from moirae.views.plan import Decided, PastAlert, View, Work

_QUERIES = sql.load("views")
_IN_TURN = sql.load("contexts")["in_turn"]

# Rows in one transaction: those that are numbered hold up live for as long.
_ROWS = 500

Row = TypeVar("Row")


class ViewStore:
    """The views of all rules, on one connection."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection

    def deployed(self) -> dict[tuple[str, str], tuple[int, int]]:
        """`live_from` and `corpus_from` (microseconds) of versions that run and have a past."""
        rows = self._connection.execute(_QUERIES["deployed"])
        return {(rule, version): (live, corpus) for rule, version, live, corpus in rows}

    def views(self, rule: str, version: str) -> dict[int, View]:
        """By chunk."""
        rows = self._connection.execute(_QUERIES["views"], {"rule": rule, "version": version})
        return {chunk: View(upto, tries) for _, _, chunk, upto, tries in rows}

    def begin(self, work: Work) -> None:
        """Somebody works on it."""
        self._connection.execute(_QUERIES["begin"], {**_of(work), "asked": work.asked})

    def untried(self, work: Work) -> None:
        """Whoever began it has ended in good order."""
        self._connection.execute(_QUERIES["untried"], _of(work))

    def failed(self, work: Work, error: str) -> None:
        """It cannot be found."""
        self._connection.execute(_QUERIES["failed"], {**_of(work), "error": sql.storable(error[:2000])})

    def without_context(self, work: Work, events: Sequence[Event]) -> list[Event]:
        """Those of some events that have no context that stays."""
        values = {**_of(work), "eids": [event.eid for event in events]}
        known = {row[0] for row in self._connection.execute(_QUERIES["known_contexts"], values)}
        return [event for event in events if event.eid not in known]

    def put_events(self, source: Source, decided: Decided) -> None:
        """The events of the past, and its alerts."""
        for events in _some(decided.events):
            with self._connection.transaction(), self._connection.cursor() as cursor:
                cursor.execute(_IN_TURN)
                cursor.executemany(_QUERIES["put_event"], [event_values(source, event, True) for event in events])
        for alerts in _some(decided.alerts):
            with self._connection.transaction(), self._connection.cursor() as cursor:
                cursor.executemany(_QUERIES["put_alert"], [_alert(source, alert) for alert in alerts])

    def put_contexts(self, work: Work, events: Sequence[Event], found: Mapping[UUID, Found]) -> None:
        """Contexts of the past."""
        for some in _some(events):
            with self._connection.transaction(), self._connection.cursor() as cursor:
                cursor.executemany(
                    _QUERIES["put_context"],
                    [
                        {
                            **_of(work),
                            "eid": event.eid,
                            "ts": from_micros(event.ts),
                            "contexts": Jsonb(sql.storable(found[event.eid].contexts)),
                            "surroundings": Jsonb(sql.storable(found[event.eid].surroundings)),
                        }
                        for event in some
                    ],
                )

    def enter_corpus(self, work: Work, events: Sequence[Event]) -> None:
        """Give numbers to what is in the corpus, in its order."""
        for some in _some(events):
            with self._connection.transaction():
                self._connection.execute(_IN_TURN)
                values = {**_of(work), "eids": [event.eid for event in some]}
                self._connection.execute(_QUERIES["enter_corpus"], values)

    def done(self, work: Work, chunk_from: int | None, keep: int, seconds: float) -> None:
        """All of it is there. `keep`: how long alerts outlive their last event, in microseconds."""
        borders = {
            "low": None if work.low is None else from_micros(work.low),
            "high": from_micros(min(work.high, work.live_from)),
            "live_from": from_micros(work.live_from),
            "keep": keep / 1e6,
        }
        with self._connection.transaction():
            self._connection.execute(_QUERIES["grow"], {**_of(work), **borders})
            end = {"from": optional_datetime(chunk_from), "upto": from_micros(work.high), "seconds": seconds}
            self._connection.execute(_QUERIES["done"], {**_of(work), **end})


def _some(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    return (rows[first : first + _ROWS] for first in range(0, len(rows), _ROWS))


def _of(work: Work) -> dict[str, Any]:
    return {"rule": work.rule, "version": work.version, "chunk": work.chunk}


def _alert(source: Source, alert: PastAlert) -> dict[str, Any]:
    life = alert.life
    return {
        **began(source, alert.first),
        "starts_at": from_micros(life.starts),
        "fired_at": optional_datetime(life.fired),
        "last_at": from_micros(life.last),
        "ends_at": optional_datetime(life.ended),
        "events": life.events,
    }
