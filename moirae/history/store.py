"""Views in PostgreSQL: the state of each view, and the events, alerts and contexts found.

All writes are idempotent: by ID for events, alerts and contexts, by event for corpus numbers. A
view is marked complete last, so that it is computed again after a crash.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar
from uuid import UUID

from psycopg import Connection
from psycopg.types.json import Jsonb

import sql
from archiver.times import from_micros, optional_datetime
from moirae.alerts import AlertingRule, Event, describe_alert, make_event_row
from moirae.evaluation import EventContexts
from moirae.history.plan import DecidedPast, PastAlert, View, ViewTask

_QUERIES = sql.load("views")
_NUMBERING_LOCK_QUERY = sql.load("contexts")["in_turn"]

# Rows in one transaction. Numbering takes a lock that blocks the live process.
_BATCH_ROWS = 500
_MAX_ERROR_LENGTH = 2000  # characters

Row = TypeVar("Row")


class ViewStore:
    """The views of all rules, on one connection."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection

    def deployed_versions(self) -> dict[tuple[str, str], tuple[int, int]]:
        """`live_from` and `corpus_from` (microseconds) of running versions with a past."""
        rows = self._connection.execute(_QUERIES["deployed"])
        return {(rule, version): (live, corpus) for rule, version, live, corpus in rows}

    def views(self, rule: str, version: str) -> dict[int, View]:
        """The views of a version, by chunk."""
        rows = self._connection.execute(_QUERIES["views"], {"rule": rule, "version": version})
        return {chunk: View(until, attempts) for _, _, chunk, until, attempts in rows}

    def count_attempt(self, task: ViewTask) -> None:
        """Record the start of an attempt."""
        values = {**_task_values(task), "asked": task.is_requested}
        self._connection.execute(_QUERIES["begin"], values)

    def undo_attempt(self, task: ViewTask) -> None:
        """Remove the record of an attempt that an orderly shutdown interrupted."""
        self._connection.execute(_QUERIES["untried"], _task_values(task))

    def record_failure(self, task: ViewTask, error: str) -> None:
        """Record the error of a failed attempt."""
        values = {**_task_values(task), "error": sql.replace_nul(error[:_MAX_ERROR_LENGTH])}
        self._connection.execute(_QUERIES["failed"], values)

    def events_without_context(self, task: ViewTask, events: Sequence[Event]) -> list[Event]:
        """The events that have no settled context."""
        values = {**_task_values(task), "eids": [event.eid for event in events]}
        rows = self._connection.execute(_QUERIES["known_contexts"], values)
        event_ids = {row[0] for row in rows}
        return [event for event in events if event.eid not in event_ids]

    def put_events(self, alerting_rule: AlertingRule, past: DecidedPast) -> None:
        """Store the events and alerts of a range."""
        for events in _split_batches(past.events):
            rows = [
                make_event_row(alerting_rule, event, settled=True).parameters() for event in events
            ]
            with self._connection.transaction(), self._connection.cursor() as cursor:
                cursor.execute(_NUMBERING_LOCK_QUERY)
                cursor.executemany(_QUERIES["put_event"], rows)
        for alerts in _split_batches(past.alerts):
            rows = [_alert_values(alerting_rule, alert) for alert in alerts]
            with self._connection.transaction(), self._connection.cursor() as cursor:
                cursor.executemany(_QUERIES["put_alert"], rows)

    def put_contexts(
        self,
        task: ViewTask,
        events: Sequence[Event],
        contexts_by_event: Mapping[UUID, EventContexts],
    ) -> None:
        """Store the contexts of events."""
        for batch in _split_batches(events):
            rows: list[dict[str, Any]] = []
            for event in batch:
                columns = _context_columns(contexts_by_event[event.eid])
                event_values = {"eid": event.eid, "ts": from_micros(event.ts)}
                rows.append({**_task_values(task), **event_values, **columns})
            with self._connection.transaction(), self._connection.cursor() as cursor:
                cursor.executemany(_QUERIES["put_context"], rows)

    def enter_corpus(self, task: ViewTask, events: Sequence[Event]) -> None:
        """Number the events of the corpus, in their order."""
        for batch in _split_batches(events):
            with self._connection.transaction():
                self._connection.execute(_NUMBERING_LOCK_QUERY)
                values = {**_task_values(task), "eids": [event.eid for event in batch]}
                self._connection.execute(_QUERIES["enter_corpus"], values)

    def mark_complete(
        self, task: ViewTask, chunk_from: int | None, keep: int, seconds: float
    ) -> None:
        """Mark a range complete.

        `keep`: `keep_firing_for` in microseconds; `seconds`: the time the computation took.
        """
        borders = {
            "low": optional_datetime(task.low),
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


def _task_values(task: ViewTask) -> dict[str, Any]:
    return {"rule": task.rule, "version": task.version, "chunk": task.chunk}


def _context_columns(contexts: EventContexts) -> dict[str, Any]:
    cut = None
    if contexts.truncated:
        cut = Jsonb(contexts.truncated)
    return {
        "contexts": Jsonb(sql.replace_nul(contexts.contexts)),
        "surroundings": Jsonb(sql.replace_nul(contexts.surroundings)),
        "cut": cut,
    }


def _alert_values(alerting_rule: AlertingRule, alert: PastAlert) -> dict[str, Any]:
    lifetime = alert.lifetime
    return {
        **describe_alert(alerting_rule, alert.first_event).parameters(),
        "starts_at": from_micros(lifetime.starts),
        "fired_at": optional_datetime(lifetime.fired),
        "last_at": from_micros(lifetime.last),
        "ends_at": optional_datetime(lifetime.ended),
        "events": lifetime.events,
    }
