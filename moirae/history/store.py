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
from moirae.alerts import AlertingRule, Event, event_columns, first_event_columns
from moirae.evaluation import EventContexts
from moirae.history.plan import DecidedPast, PastAlert, View, ViewTask

_QUERIES = sql.load("views")
_NUMBERING_LOCK_QUERY = sql.load("contexts")["in_turn"]

# Rows in one transaction: those that are numbered hold up live for as long.
_BATCH_ROWS = 500

Row = TypeVar("Row")


class ViewStore:
    """The views of all rules, on one connection."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection

    def deployed_versions(self) -> dict[tuple[str, str], tuple[int, int]]:
        """`live_from` and `corpus_from` (microseconds) of versions that run and have a past."""
        rows = self._connection.execute(_QUERIES["deployed"])
        return {(rule, version): (live, corpus) for rule, version, live, corpus in rows}

    def views(self, rule: str, version: str) -> dict[int, View]:
        """By chunk."""
        rows = self._connection.execute(_QUERIES["views"], {"rule": rule, "version": version})
        return {chunk: View(upto, tries) for _, _, chunk, upto, tries in rows}

    def count_attempt(self, task: ViewTask) -> None:
        """Somebody works on it."""
        self._connection.execute(
            _QUERIES["begin"], {**_task_values(task), "asked": task.is_requested}
        )

    def undo_attempt(self, task: ViewTask) -> None:
        """Whoever began it has ended in good order."""
        self._connection.execute(_QUERIES["untried"], _task_values(task))

    def record_failure(self, task: ViewTask, error: str) -> None:
        """It cannot be found."""
        self._connection.execute(
            _QUERIES["failed"], {**_task_values(task), "error": sql.replace_nul(error[:2000])}
        )

    def events_without_context(self, task: ViewTask, events: Sequence[Event]) -> list[Event]:
        """Those of some events that have no context that stays."""
        values = {**_task_values(task), "eids": [event.eid for event in events]}
        known = {row[0] for row in self._connection.execute(_QUERIES["known_contexts"], values)}
        return [event for event in events if event.eid not in known]

    def put_events(self, source: AlertingRule, decided: DecidedPast) -> None:
        """The events of the past, and its alerts."""
        for events in _split_batches(decided.events):
            with self._connection.transaction(), self._connection.cursor() as cursor:
                cursor.execute(_NUMBERING_LOCK_QUERY)
                cursor.executemany(
                    _QUERIES["put_event"], [event_columns(source, event, True) for event in events]
                )
        for alerts in _split_batches(decided.alerts):
            with self._connection.transaction(), self._connection.cursor() as cursor:
                cursor.executemany(
                    _QUERIES["put_alert"], [_alert_values(source, alert) for alert in alerts]
                )

    def put_contexts(
        self,
        task: ViewTask,
        events: Sequence[Event],
        contexts_by_event: Mapping[UUID, EventContexts],
    ) -> None:
        """Contexts of the past."""
        for some in _split_batches(events):
            with self._connection.transaction(), self._connection.cursor() as cursor:
                cursor.executemany(
                    _QUERIES["put_context"],
                    [
                        {
                            **_task_values(task),
                            "eid": event.eid,
                            "ts": from_micros(event.ts),
                            "contexts": Jsonb(
                                sql.replace_nul(contexts_by_event[event.eid].contexts)
                            ),
                            "surroundings": Jsonb(
                                sql.replace_nul(contexts_by_event[event.eid].surroundings)
                            ),
                            "cut": Jsonb(contexts_by_event[event.eid].cut)
                            if contexts_by_event[event.eid].cut
                            else None,
                        }
                        for event in some
                    ],
                )

    def enter_corpus(self, task: ViewTask, events: Sequence[Event]) -> None:
        """Give numbers to what is in the corpus, in its order."""
        for some in _split_batches(events):
            with self._connection.transaction():
                self._connection.execute(_NUMBERING_LOCK_QUERY)
                values = {**_task_values(task), "eids": [event.eid for event in some]}
                self._connection.execute(_QUERIES["enter_corpus"], values)

    def mark_complete(
        self, task: ViewTask, chunk_from: int | None, keep: int, seconds: float
    ) -> None:
        """All of it is there. `keep`: how long alerts outlive their last event, in microseconds."""
        borders = {
            "low": None if task.low is None else from_micros(task.low),
            "high": from_micros(min(task.high, task.live_from)),
            "live_from": from_micros(task.live_from),
            "keep": keep / 1e6,
        }
        with self._connection.transaction():
            self._connection.execute(_QUERIES["grow"], {**_task_values(task), **borders})
            end = {
                "from": optional_datetime(chunk_from),
                "upto": from_micros(task.high),
                "seconds": seconds,
            }
            self._connection.execute(_QUERIES["done"], {**_task_values(task), **end})


def _split_batches(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    return (rows[first : first + _BATCH_ROWS] for first in range(0, len(rows), _BATCH_ROWS))


def _task_values(work: ViewTask) -> dict[str, Any]:
    return {"rule": work.rule, "version": work.version, "chunk": work.chunk}


def _alert_values(source: AlertingRule, alert: PastAlert) -> dict[str, Any]:
    life = alert.life
    return {
        **first_event_columns(source, alert.first_event),
        "starts_at": from_micros(life.starts),
        "fired_at": optional_datetime(life.fired),
        "last_at": from_micros(life.last),
        "ends_at": optional_datetime(life.ended),
        "events": life.events,
    }
