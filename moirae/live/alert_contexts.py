"""Contexts and surroundings of the events that recalls are about.

A context is provisional when its event is detected, and settled once every stream of the rule has
passed it. Pending work is read from the database (events without a context, contexts that are not
settled), so that nothing depends on the memory of this process.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any
from uuid import UUID

import sql
from archiver.times import Micros, from_micros
from moirae.evaluation import ContextEvaluator, EventContexts, RecallAnswers
from moirae.evaluation.plan import ActiveRule
from moirae.live.flow_counts import FlowCounts
from recall.ledger import Ledger, retry_on_deadlock
from recall.requests import RecallEvent
from sql.events import ContextGateway, RecallEventRow, UnsettledContextRow
from sql.recalls import ChangedContextRow
from sql.similarity import CorpusGateway

_BATCH_EVENTS = 100  # events of a rule in one statement
_MAX_ATTEMPTS = 3  # failed computations after which a context is empty for good
_MEMORY_MARGIN = 60_000_000  # microseconds that rows stay in memory beyond what contexts need

_RuleEvents = tuple[ActiveRule, list[RecallEvent]]
_EventKey = tuple[str, UUID]  # rule name, event ID


class AlertContexts:
    """Computes and stores contexts, on the connection of the live process."""

    def __init__(self, context_queries: ContextEvaluator, connection: sql.Connection) -> None:
        self.flows = FlowCounts()
        """Counts what was computed, and what detection adds."""
        self._context_queries = context_queries
        self._connection = connection
        self._gateway = ContextGateway(connection)
        self._corpora = CorpusGateway(connection)
        self._ledger = Ledger(connection)
        self._failed_attempts: dict[_EventKey, int] = {}

    def compute_missing(
        self,
        active_rules: Sequence[ActiveRule],
        watermarks: Mapping[str, Micros | None],
        since: datetime | None,
    ) -> bool:
        """Compute the contexts of events that have none, of alerts changed since a moment.

        Contexts of settled events that every stream has passed are settled at once, unless they
        read recalls. Returns whether there may be more events without a context.
        """
        missing: list[_RuleEvents] = []
        settled_ids: set[UUID] = set()
        has_more = False
        for rule in active_rules:
            if not self._context_queries.queries_of(rule):
                continue
            rows = self._gateway.list_missing(
                rule.name,
                rule.version,
                every_event=rule.compares_every_event,
                unfired=rule.has_corpus_of_events,
                since=since,
                limit=_BATCH_EVENTS,
            )
            if not rows:
                continue
            has_more = has_more or len(rows) == _BATCH_EVENTS
            missing.append((rule, list(map(_to_event, rows))))
            horizon = self._context_queries.context_horizon(rule, watermarks)
            if horizon is None or self._context_queries.recalls_of(rule):
                continue
            for row in rows:
                if row.settled and row.ts < horizon:
                    settled_ids.add(row.eid)
        if not missing:
            return False
        contexts = self._compute(missing)
        for rule, events in missing:
            for event in events:
                key = rule.name, event.eid
                if key not in contexts:  # its query failed: empty until it is settled
                    contexts[key] = self._context_queries.parse_contexts(rule, {})
                    settled_ids.discard(event.eid)
        retry_on_deadlock(
            lambda: self._store_computed(active_rules, missing, contexts, settled_ids)
        )
        return has_more

    def _compute(
        self, events_by_rule: Sequence[_RuleEvents], answers: RecallAnswers = MappingProxyType({})
    ) -> dict[_EventKey, EventContexts]:
        started_at = time.perf_counter()
        contexts = self._context_queries.compute(events_by_rule, answers)
        computed = ((rule, event_contexts) for (rule, _), event_contexts in contexts.items())
        self.flows.add_contexts(computed, time.perf_counter() - started_at)
        return contexts

    def _store_computed(
        self,
        active_rules: Sequence[ActiveRule],
        missing: Sequence[_RuleEvents],
        contexts: Mapping[_EventKey, EventContexts],
        settled_ids: Collection[UUID],
    ) -> None:
        with self._connection.transaction():
            for rule, events in missing:
                self._upsert_contexts(rule, events, contexts, settled_ids)
            self._enter_corpus(active_rules)

    def settle(
        self, active_rules: Sequence[ActiveRule], watermarks: Mapping[str, Micros | None]
    ) -> bool:
        """Settle the contexts of settled events that every stream of their rule has passed.

        The recalls that they read must have ended. Settled contexts enter the corpus. Where a
        context has changed, the recalls of the event that have read it restart. Returns whether any
        context was settled.
        """
        candidates: list[_RuleEvents] = []
        stored_contexts: dict[_EventKey, UnsettledContextRow] = {}
        for rule in active_rules:
            horizon = self._context_queries.context_horizon(rule, watermarks)
            if horizon is None:
                continue
            rows = self._gateway.list_unsettled(
                rule.name,
                rule.version,
                before=from_micros(horizon),
                recalls=self._context_queries.recalls_of(rule),
                limit=_BATCH_EVENTS,
            )
            if rows:
                candidates.append((rule, list(map(_to_event, rows))))
            for row in rows:
                stored_contexts[rule.name, row.eid] = row
        contexts: dict[_EventKey, EventContexts] = {}
        if candidates:
            contexts = self._compute(candidates, self._load_answers(candidates))
        settled_events: list[_RuleEvents] = []
        changed: list[ChangedContextRow] = []
        for rule, events in candidates:
            ready = [event for event in events if self._may_settle(rule, event, contexts)]
            settled_events.append((rule, ready))
            for event in ready:
                key = rule.name, event.eid
                stored = stored_contexts[key]
                changed_row = ChangedContextRow(
                    event.eid,
                    rule.version,
                    _changed_names(stored.contexts, contexts[key].contexts),
                    _changed_names(stored.surroundings, contexts[key].surroundings),
                )
                if changed_row.contexts or changed_row.surroundings:
                    changed.append(changed_row)
        retry_on_deadlock(
            lambda: self._store_settled(active_rules, settled_events, contexts, changed)
        )
        return any(events for _, events in settled_events)

    def _load_answers(self, events_by_rule: Sequence[_RuleEvents]) -> RecallAnswers:
        """The last answers of the recalls that contexts read; without one there are no rows."""
        answers: dict[_EventKey, Mapping[str, Sequence[Mapping[str, Any]]]] = {}
        for rule, events in events_by_rule:
            names = self._context_queries.recalls_of(rule)
            for event in events if names else ():
                latest = self._ledger.latest_answers(event.eid)
                answers[rule.name, event.eid] = {
                    name: latest[name].answer or [] for name in names & latest.keys()
                }
        return answers

    def has_open_recalls(self, active_rules: Sequence[ActiveRule]) -> bool:
        """Whether contexts wait for recalls that have not ended."""
        for rule in active_rules:
            names = self._context_queries.recalls_of(rule)
            if names and self._gateway.has_open_recalls(rule.name, rule.version, names):
                return True
        return False

    def _store_settled(
        self,
        active_rules: Sequence[ActiveRule],
        settled_events: Sequence[_RuleEvents],
        contexts: Mapping[_EventKey, EventContexts],
        changed: Sequence[ChangedContextRow],
    ) -> None:
        with self._connection.transaction():
            for rule, events in settled_events:
                event_ids = [event.eid for event in events]
                self._upsert_contexts(rule, events, contexts, event_ids)
                # Recalls that need a context are requested for changed alerts only.
                self._gateway.touch_alerts(rule.name, rule.version, event_ids)
            if changed:
                self._ledger.restart_readers(changed)
            self._gateway.delete_unneeded(_rules_comparing_every_event(active_rules))
            self._enter_corpus(active_rules)

    def _may_settle(
        self, rule: ActiveRule, event: RecallEvent, contexts: dict[_EventKey, EventContexts]
    ) -> bool:
        """Whether the context was computed, or has failed `_MAX_ATTEMPTS` times.

        In the second case an empty context is added to `contexts`.
        """
        key = rule.name, event.eid
        if key in contexts:
            self._failed_attempts.pop(key, None)
            return True
        self._failed_attempts[key] = self._failed_attempts.get(key, 0) + 1
        if self._failed_attempts[key] < _MAX_ATTEMPTS:
            return False
        del self._failed_attempts[key]
        contexts[key] = self._context_queries.parse_contexts(rule, {})
        return True

    def reach(self, rule: ActiveRule) -> Micros:
        """Event time from an event until its context can be settled."""
        return self._context_queries.settle_delay(rule)

    def _enter_corpus(self, active_rules: Sequence[ActiveRule]) -> None:
        """Add settled contexts to the corpus; restart comparisons of later events without them."""
        self._corpora.lock_numbering()
        oldest_entries: dict[tuple[str, str], Micros] = {}
        unfired = [rule.name for rule in active_rules if rule.has_corpus_of_events]
        for event in self._corpora.add_settled(_rules_comparing_every_event(active_rules), unfired):
            key = event.rule, event.version
            oldest_entries[key] = min(event.ts, oldest_entries.get(key, event.ts))
        for (rule, version), oldest in oldest_entries.items():
            self._ledger.restart_incomplete_comparisons(rule, version, oldest)

    def oldest_needed(
        self, active_rules: Sequence[ActiveRule], watermarks: Mapping[str, Micros | None]
    ) -> dict[str, Micros]:
        """By stream, the event time of the oldest row that future contexts read."""
        oldest_by_stream: dict[str, Micros] = {}
        for rule in active_rules:
            for lifted_query in self._context_queries.queries_of(rule):
                inputs = lifted_query.lifted.inputs
                context_query = lifted_query.context_query
                span = context_query.within + context_query.delay + inputs.reach + _MEMORY_MARGIN
                for stream in inputs.streams | inputs.derived:
                    watermark = watermarks.get(stream)
                    if watermark is None:
                        continue
                    oldest = watermark - span
                    oldest_by_stream[stream] = min(oldest_by_stream.get(stream, oldest), oldest)
        return oldest_by_stream

    def _upsert_contexts(
        self,
        rule: ActiveRule,
        events: Sequence[RecallEvent],
        contexts: Mapping[_EventKey, EventContexts],
        settled_ids: Collection[UUID],
    ) -> None:
        rows = []
        for event in events:
            event_contexts = contexts[rule.name, event.eid]
            is_settled = event.eid in settled_ids
            rows.append(event_contexts.to_row(rule.name, rule.version, event, settled=is_settled))
        self._gateway.put(rows)


def _rules_comparing_every_event(active_rules: Sequence[ActiveRule]) -> list[str]:
    return [rule.name for rule in active_rules if rule.compares_every_event]


def _changed_names(stored: Mapping[str, Any], computed: Mapping[str, Any]) -> set[str]:
    """The names of contexts whose rows are not the stored ones."""
    rows_by_name = sql.replace_nul(computed)
    names = stored.keys() | rows_by_name.keys()
    return {name for name in names if stored.get(name) != rows_by_name.get(name)}


def _to_event(row: RecallEventRow) -> RecallEvent:
    return RecallEvent(row.eid, row.ts, row.key, row.attributes)
