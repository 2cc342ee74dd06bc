"""Contexts and surroundings of the events that recalls are about: provisional at once, settled when all is in.

What is to be done is read from the database (events without a context, contexts that are not settled), so that nothing
hangs on what this process remembers.
"""

from collections.abc import Collection, Mapping, Sequence
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

# Events in one statement.
_BATCH_EVENTS = 100
# How often a context is computed that fails, before it is empty for good.
_MAX_ATTEMPTS = 3
# Microseconds that rows stay in memory beyond what the contexts of events of this moment need.
_MEMORY_MARGIN = 60_000_000


class AlertContexts:
    """Contexts of the live process, on its connection."""

    def __init__(self, context_queries: ContextEvaluator, connection: Connection[Any]) -> None:
        self._context_queries = context_queries
        self._connection = connection
        self._ledger = Ledger(connection)
        self._failed_attempts: dict[tuple[str, UUID], int] = {}

    def compute_missing(
        self, active_rules: Sequence[ActiveRule], watermarks: Mapping[str, int | None], since: Any
    ) -> bool:
        """Contexts of events that have none, from what is there; of alerts written since a moment.

        Those of settled events that every stream has passed are settled at once. Returns whether there may be more.
        """
        wanted: list[tuple[ActiveRule, list[RecallEvent]]] = []
        settled: set[UUID] = set()
        more = False
        for rule in active_rules:
            if not self._context_queries.queries_of(rule):
                continue
            values = {
                **_rule_values(rule),
                "every": _recalls_every_event(rule),
                "since": since,
                "limit": _BATCH_EVENTS,
            }
            with self._connection.cursor(row_factory=dict_row) as cursor:
                rows = cursor.execute(_QUERIES["wanted"], values).fetchall()
            more = more or len(rows) == _BATCH_EVENTS
            horizon = self._context_queries.context_horizon(rule, watermarks)
            if horizon is not None:
                settled |= {row["eid"] for row in rows if row["settled"] and row["ts"] < horizon}
            if rows:
                wanted.append((rule, [_to_event(row) for row in rows]))
        if wanted:
            found = self._context_queries.compute(wanted)
            empty = [
                (rule, e.eid)
                for rule, events in wanted
                for e in events
                if (rule.name, e.eid) not in found
            ]
            found |= {
                (rule.name, eid): self._context_queries.parse_contexts(rule, {})
                for rule, eid in empty
            }
            settled -= {eid for _, eid in empty}
            retry_on_deadlock(lambda: self._store_computed(active_rules, wanted, found, settled))
        return more

    def _store_computed(
        self,
        running: Sequence[ActiveRule],
        wanted: Sequence[tuple[ActiveRule, list[RecallEvent]]],
        found: Mapping[tuple[str, UUID], EventContexts],
        settled: Collection[UUID],
    ) -> None:
        with self._connection.transaction():
            for rule, events in wanted:
                self._upsert_contexts(rule, events, found, settled)
            self._enter_corpus(running)

    def settle(
        self, active_rules: Sequence[ActiveRule], watermarks: Mapping[str, int | None]
    ) -> bool:
        """Contexts of settled events that every stream of their rule has passed; they enter the corpus.

        Where a context has changed, the event's similarity recalls begin again. Returns whether anything was settled.
        """
        due: list[tuple[ActiveRule, list[RecallEvent]]] = []
        before: dict[tuple[str, UUID], Any] = {}
        for rule in active_rules:
            horizon = self._context_queries.context_horizon(rule, watermarks)
            if horizon is None:
                continue
            values = {**_rule_values(rule), "before": from_micros(horizon), "limit": _BATCH_EVENTS}
            with self._connection.cursor(row_factory=dict_row) as cursor:
                rows = cursor.execute(_QUERIES["unsettled"], values).fetchall()
            if rows:
                due.append((rule, [_to_event(row) for row in rows]))
                before |= {(rule.name, row["eid"]): row["contexts"] for row in rows}
        found = self._context_queries.compute(due) if due else {}
        due = [
            (rule, [event for event in events if self._may_settle(rule, event, found)])
            for rule, events in due
        ]
        changed = [
            (event.eid, rule.definition.version)
            for rule, events in due
            for event in events
            if sql.replace_nul(found[rule.name, event.eid].contexts) != before[rule.name, event.eid]
        ]
        retry_on_deadlock(lambda: self._store_settled(active_rules, due, found, changed))
        return any(events for _, events in due)

    def _store_settled(
        self,
        running: Sequence[ActiveRule],
        due: Sequence[tuple[ActiveRule, list[RecallEvent]]],
        found: Mapping[tuple[str, UUID], EventContexts],
        changed: Collection[tuple[UUID, str]],
    ) -> None:
        with self._connection.transaction():
            for rule, events in due:
                self._upsert_contexts(rule, events, found, {event.eid for event in events})
                # Recalls that wait for this look at alerts that have changed.
                self._connection.execute(
                    _QUERIES["touch"], {**_rule_values(rule), "eids": [e.eid for e in events]}
                )
            if changed:
                self._ledger.restart_comparisons(changed)
            self._connection.execute(
                _QUERIES["forget"], {"every": _rules_recalling_every_event(running)}
            )
            self._enter_corpus(running)

    def _may_settle(
        self, rule: ActiveRule, event: RecallEvent, found: dict[tuple[str, UUID], EventContexts]
    ) -> bool:
        """Whether its context was computed, or has failed too often: then it is empty for good."""
        key = rule.name, event.eid
        if key in found:
            self._failed_attempts.pop(key, None)
            return True
        self._failed_attempts[key] = self._failed_attempts.get(key, 0) + 1
        if self._failed_attempts[key] < _MAX_ATTEMPTS:
            return False
        del self._failed_attempts[key]
        found[key] = self._context_queries.parse_contexts(rule, {})
        return True

    def reach(self, rule: ActiveRule) -> int:
        """How far beyond an event (microseconds) time must go until its context can be settled."""
        return self._context_queries.settle_delay(rule)

    def _enter_corpus(self, running: Sequence[ActiveRule]) -> None:
        """What is ready enters the corpus; later events that were compared without it are compared again."""
        self._connection.execute(_QUERIES["in_turn"])
        entered: dict[tuple[str, str], int] = {}
        for rule, version, ts in self._connection.execute(
            _QUERIES["enter_corpus"], {"every": _rules_recalling_every_event(running)}
        ):
            entered[rule, version] = min(ts, entered.get((rule, version), ts))
        for (rule, version), oldest in entered.items():
            self._ledger.restart_incomplete_comparisons(rule, version, oldest)

    def oldest_needed(
        self, active_rules: Sequence[ActiveRule], watermarks: Mapping[str, int | None]
    ) -> dict[str, int]:
        """From which event time on the contexts of events to come look at each stream."""
        needs: dict[str, int] = {}
        for rule in active_rules:
            for asking in self._context_queries.queries_of(rule):
                used = asking.lifted.inputs
                for stream in used.streams | used.derived:
                    mark = watermarks.get(stream)
                    if mark is not None:
                        low = (
                            mark
                            - asking.context_query.within
                            - asking.context_query.delay
                            - used.reach
                            - _MEMORY_MARGIN
                        )
                        needs[stream] = min(needs.get(stream, low), low)
        return needs

    def _upsert_contexts(
        self,
        rule: ActiveRule,
        events: Sequence[RecallEvent],
        found: Mapping[tuple[str, UUID], EventContexts],
        settled: Collection[UUID],
    ) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(
                _QUERIES["put"],
                [
                    {
                        **_rule_values(rule),
                        "eid": event.eid,
                        "ts": from_micros(event.ts),
                        "contexts": Jsonb(sql.replace_nul(found[rule.name, event.eid].contexts)),
                        "surroundings": Jsonb(
                            sql.replace_nul(found[rule.name, event.eid].surroundings)
                        ),
                        "cut": Jsonb(found[rule.name, event.eid].cut)
                        if found[rule.name, event.eid].cut
                        else None,
                        "settled": event.eid in settled,
                    }
                    for event in events
                ],
            )


def _rule_values(rule: ActiveRule) -> dict[str, Any]:
    return {"rule": rule.name, "version": rule.definition.version}


def _recalls_every_event(rule: ActiveRule) -> bool:
    return rule.definition.rule.spec.recall_on == "every"


def _rules_recalling_every_event(running: Sequence[ActiveRule]) -> list[str]:
    return [rule.name for rule in running if _recalls_every_event(rule)]


def _to_event(row: Mapping[str, Any]) -> RecallEvent:
    return RecallEvent(row["eid"], row["ts"], row["key"], row["attributes"])
