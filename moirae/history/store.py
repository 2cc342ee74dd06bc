"""Views in PostgreSQL: the state of each view, and the events, alerts and contexts found.

All writes are idempotent: by ID for events, alerts and contexts, by event for corpus numbers. A
view is marked complete last, so that it is computed again after a crash.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

import sql
from archiver.times import Micros, from_micros, optional_datetime
from moirae.alerts import (
    AlertingRule,
    Event,
    FoldedAlert,
    describe_alert,
    make_event_row,
    make_lifetime_row,
)
from moirae.evaluation import EventContexts
from moirae.history.plan import DecidedPast, View, ViewTask
from sql.alerts import AlertDescriptionRow, AlertLifetimeRow
from sql.events import ContextGateway
from sql.rules import ViewGateway
from sql.similarity import CorpusGateway

# Rows in one transaction. Numbering takes a lock that blocks the live process.
_BATCH_ROWS = 500
_MAX_ERROR_LENGTH = 2000  # characters

Row = TypeVar("Row")


class ViewStore:
    """The views of all rules, on one connection."""

    def __init__(self, connection: sql.Connection) -> None:
        self._connection = connection
        self._views = ViewGateway(connection)
        self._contexts = ContextGateway(connection)
        self._corpora = CorpusGateway(connection)

    def views(self, rule: str, version: str) -> dict[int, View]:
        """The views of a version, by chunk."""
        rows = self._views.list_of_version(rule, version)
        return {row.chunk: View(row.upto, row.tries) for row in rows}

    def count_attempt(self, task: ViewTask) -> None:
        """Record the start of an attempt."""
        self._views.begin_attempt(*_view_key(task), requested=task.is_requested)

    def undo_attempt(self, task: ViewTask) -> None:
        """Remove the record of an attempt that an orderly shutdown interrupted."""
        self._views.undo_attempt(*_view_key(task))

    def record_failure(self, task: ViewTask, error: str) -> None:
        """Record the error of a failed attempt."""
        self._views.set_error(*_view_key(task), error=error[:_MAX_ERROR_LENGTH])

    def events_without_context(self, task: ViewTask, events: Sequence[Event]) -> list[Event]:
        """The events that have no settled context."""
        eids = [event.eid for event in events]
        settled_ids = self._contexts.list_settled_ids(task.rule, task.version, eids)
        return [event for event in events if event.eid not in settled_ids]

    def put_events(self, alerting_rule: AlertingRule, past: DecidedPast) -> None:
        """Store the events and alerts of a range."""
        rule, version = alerting_rule.rule, alerting_rule.version
        for events in _split_batches(past.events):
            rows = [make_event_row(rule, version, event, settled=True) for event in events]
            with self._connection.transaction():
                self._corpora.lock_numbering()
                self._views.insert_events(rows)
        for alerts in _split_batches(past.alerts):
            alert_rows = [_make_alert_rows(alerting_rule, alert) for alert in alerts]
            with self._connection.transaction():
                self._views.insert_alerts(alert_rows)

    def put_contexts(
        self,
        task: ViewTask,
        events: Sequence[Event],
        contexts_by_event: Mapping[UUID, EventContexts],
    ) -> None:
        """Store the contexts of events."""
        for batch in _split_batches(events):
            rows = []
            for event in batch:
                contexts = contexts_by_event[event.eid]
                rows.append(contexts.to_row(task.rule, task.version, event, settled=True))
            with self._connection.transaction():
                self._views.insert_contexts(rows)

    def enter_corpus(self, task: ViewTask, events: Sequence[Event]) -> None:
        """Number the events of the corpus, in their order."""
        for batch in _split_batches(events):
            with self._connection.transaction():
                self._corpora.lock_numbering()
                eids = [event.eid for event in batch]
                self._corpora.add_past(task.rule, task.version, eids)

    def mark_complete(
        self, task: ViewTask, chunk_from: Micros | None, keep: Micros, seconds: float
    ) -> None:
        """Mark a range complete.

        `keep`: `keep_firing_for`; `seconds`: the time the computation took.
        """
        assert task.range.end is not None
        with self._connection.transaction():
            self._views.extend_alerts(
                task.rule,
                task.version,
                low=optional_datetime(task.range.start),
                high=from_micros(min(task.range.end, task.live_from)),
                live_from=from_micros(task.live_from),
                keep_seconds=keep / 1e6,
            )
            self._views.complete(
                *_view_key(task),
                chunk_from=optional_datetime(chunk_from),
                complete_until=from_micros(task.range.end),
                seconds=seconds,
            )


def _split_batches(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    return (rows[first : first + _BATCH_ROWS] for first in range(0, len(rows), _BATCH_ROWS))


def _view_key(task: ViewTask) -> tuple[str, str, int]:
    return task.rule, task.version, task.chunk


def _make_alert_rows(
    alerting_rule: AlertingRule, alert: FoldedAlert
) -> tuple[AlertDescriptionRow, AlertLifetimeRow]:
    description = describe_alert(alerting_rule, alert.first_event)
    return description, make_lifetime_row(alert.lifetime, "resolved")
