"""Contexts and surroundings of the events that recalls are about.

A context is provisional when its event is detected, and settled once every stream of the rule has
passed it. Pending work is read from the database (events without a context, contexts that are not
settled), so that nothing depends on the memory of this process.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

import sql
from archiver.times import from_micros
from moirae.evaluation import ActiveRule, ContextEvaluator, EventContexts
from recall.ledger import Ledger, retry_on_deadlock
from recall.requests import RecallEvent

_QUERIES = sql.load("contexts")

_BATCH_EVENTS = 100  # events of a rule in one statement
_MAX_ATTEMPTS = 3  # failed computations after which a context is empty for good
_MEMORY_MARGIN = 60_000_000  # microseconds that rows stay in memory beyond what contexts need

_RuleEvents = tuple[ActiveRule, list[RecallEvent]]
_EventKey = tuple[str, UUID]  # rule name, event ID


class AlertContexts:
    """Computes and stores contexts, on the connection of the live process."""

    def __init__(self, context_queries: ContextEvaluator, connection: Connection[Any]) -> None:
        self._context_queries = context_queries
        self._connection = connection
        self._ledger = Ledger(connection)
        self._failed_attempts: dict[_EventKey, int] = {}

    def compute_missing(
        self,
        active_rules: Sequence[ActiveRule],
        watermarks: Mapping[str, int | None],
        since: datetime | None,
    ) -> bool:
        """Compute the contexts of events that have none, of alerts changed since a moment.

        Contexts of settled events that every stream has passed are settled at once. Returns whether
        there may be more events without a context.
        """
        missing: list[_RuleEvents] = []
        settled_ids: set[UUID] = set()
        has_more = False
        for rule in active_rules:
            if not self._context_queries.queries_of(rule):
                continue
            rows = self._select_events(
                "wanted", rule, every=_recalls_every_event(rule), since=since
            )
            if not rows:
                continue
            has_more = has_more or len(rows) == _BATCH_EVENTS
            missing.append((rule, list(map(_to_event, rows))))
            horizon = self._context_queries.context_horizon(rule, watermarks)
            if horizon is None:
                continue
            for row in rows:
                if row["settled"] and row["ts"] < horizon:
                    settled_ids.add(row["eid"])
        if not missing:
            return False
        contexts = self._context_queries.compute(missing)
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

    def _select_events(self, query: str, rule: ActiveRule, **values: Any) -> list[dict[str, Any]]:
        """At most `_BATCH_EVENTS` rows of a query about the events of a rule."""
        values |= _rule_values(rule)
        values["limit"] = _BATCH_EVENTS
        with self._connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(_QUERIES[query], values).fetchall()

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
        self, active_rules: Sequence[ActiveRule], watermarks: Mapping[str, int | None]
    ) -> bool:
        """Settle the contexts of settled events that every stream of their rule has passed.

        Settled contexts enter the corpus. Where a context has changed, the similarity recalls of
        the event restart. Returns whether any context was settled.
        """
        candidates: list[_RuleEvents] = []
        stored_contexts: dict[_EventKey, Any] = {}
        for rule in active_rules:
            horizon = self._context_queries.context_horizon(rule, watermarks)
            if horizon is None:
                continue
            rows = self._select_events("unsettled", rule, before=from_micros(horizon))
            if rows:
                candidates.append((rule, list(map(_to_event, rows))))
            for row in rows:
                stored_contexts[rule.name, row["eid"]] = row["contexts"]
        contexts: dict[_EventKey, EventContexts] = {}
        if candidates:
            contexts = self._context_queries.compute(candidates)
        settled_events: list[_RuleEvents] = []
        changed: list[tuple[UUID, str]] = []
        for rule, events in candidates:
            ready = [event for event in events if self._may_settle(rule, event, contexts)]
            settled_events.append((rule, ready))
            for event in ready:
                key = rule.name, event.eid
                if sql.replace_nul(contexts[key].contexts) != stored_contexts[key]:
                    changed.append((event.eid, rule.definition.version))
        retry_on_deadlock(
            lambda: self._store_settled(active_rules, settled_events, contexts, changed)
        )
        return any(events for _, events in settled_events)

    def _store_settled(
        self,
        active_rules: Sequence[ActiveRule],
        settled_events: Sequence[_RuleEvents],
        contexts: Mapping[_EventKey, EventContexts],
        changed: Collection[tuple[UUID, str]],
    ) -> None:
        with self._connection.transaction():
            for rule, events in settled_events:
                event_ids = [event.eid for event in events]
                self._upsert_contexts(rule, events, contexts, event_ids)
                # Recalls that need a context are requested for changed alerts only.
                self._connection.execute(
                    _QUERIES["touch"], {**_rule_values(rule), "eids": event_ids}
                )
            if changed:
                self._ledger.restart_comparisons(changed)
            self._connection.execute(
                _QUERIES["forget"], {"every": _rules_recalling_every_event(active_rules)}
            )
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

    def reach(self, rule: ActiveRule) -> int:
        """Event time (microseconds) from an event until its context can be settled."""
        return self._context_queries.settle_delay(rule)

    def _enter_corpus(self, active_rules: Sequence[ActiveRule]) -> None:
        """Add settled contexts to the corpus; restart comparisons of later events without them."""
        self._connection.execute(_QUERIES["in_turn"])
        oldest_entries: dict[tuple[str, str], int] = {}
        entries = self._connection.execute(
            _QUERIES["enter_corpus"], {"every": _rules_recalling_every_event(active_rules)}
        )
        for rule, version, ts in entries:
            oldest_entries[rule, version] = min(ts, oldest_entries.get((rule, version), ts))
        for (rule, version), oldest in oldest_entries.items():
            self._ledger.restart_incomplete_comparisons(rule, version, oldest)

    def oldest_needed(
        self, active_rules: Sequence[ActiveRule], watermarks: Mapping[str, int | None]
    ) -> dict[str, int]:
        """By stream, the event time (microseconds) of the oldest row that future contexts read."""
        oldest_by_stream: dict[str, int] = {}
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
        rows: list[dict[str, Any]] = []
        for event in events:
            event_contexts = contexts[rule.name, event.eid]
            row = {
                **_rule_values(rule),
                "eid": event.eid,
                "ts": from_micros(event.ts),
                "contexts": Jsonb(sql.replace_nul(event_contexts.contexts)),
                "surroundings": Jsonb(sql.replace_nul(event_contexts.surroundings)),
                "cut": None,
                "settled": event.eid in settled_ids,
            }
            if event_contexts.truncated:
                row["cut"] = Jsonb(event_contexts.truncated)
            rows.append(row)
        with self._connection.cursor() as cursor:
            cursor.executemany(_QUERIES["put"], rows)


def _rule_values(rule: ActiveRule) -> dict[str, Any]:
    return {"rule": rule.name, "version": rule.definition.version}


def _recalls_every_event(rule: ActiveRule) -> bool:
    return rule.definition.rule.spec.recall_on == "every"


def _rules_recalling_every_event(active_rules: Sequence[ActiveRule]) -> list[str]:
    return [rule.name for rule in filter(_recalls_every_event, active_rules)]


def _to_event(row: Mapping[str, Any]) -> RecallEvent:
    return RecallEvent(row["eid"], row["ts"], row["key"], row["attributes"])
