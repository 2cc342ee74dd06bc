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
from moirae.judging.around import Around, Found
from moirae.judging.plan import Running
from recall.ledger import Ledger, twice
from recall.request import Asked

_QUERIES = sql.load("contexts")

# Events in one statement.
_EVENTS = 100
# How often a context is computed that fails, before it is empty for good.
_TRIES = 3
# Microseconds that rows stay in memory beyond what the contexts of events of this moment need.
_SPARE = 60_000_000


class Contexts:
    """Contexts of the live process, on its connection."""

    def __init__(self, around: Around, connection: Connection[Any]) -> None:
        self._around = around
        self._connection = connection
        self._ledger = Ledger(connection)
        self._failed: dict[tuple[str, UUID], int] = {}

    def begin(self, running: Sequence[Running], watermarks: Mapping[str, int | None], since: Any) -> bool:
        """Contexts of events that have none, from what is there; of alerts written since a moment.

        Those of settled events that every stream has passed are settled at once. Returns whether there may be more.
        """
        wanted: list[tuple[Running, list[Asked]]] = []
        settled: set[UUID] = set()
        more = False
        for rule in running:
            if not self._around.of(rule):
                continue
            values = {**_of_rule(rule), "every": _every(rule), "since": since, "limit": _EVENTS}
            with self._connection.cursor(row_factory=dict_row) as cursor:
                rows = cursor.execute(_QUERIES["wanted"], values).fetchall()
            more = more or len(rows) == _EVENTS
            horizon = self._around.horizon(rule, watermarks)
            if horizon is not None:
                settled |= {row["eid"] for row in rows if row["settled"] and row["ts"] < horizon}
            if rows:
                wanted.append((rule, [_asked(row) for row in rows]))
        if wanted:
            found = self._around.compute(wanted)
            empty = [(rule, e.eid) for rule, events in wanted for e in events if (rule.rule, e.eid) not in found]
            found |= {(rule.rule, eid): self._around.found(rule, {}) for rule, eid in empty}
            settled -= {eid for _, eid in empty}
            twice(lambda: self._store_begun(running, wanted, found, settled))
        return more

    def _store_begun(
        self,
        running: Sequence[Running],
        wanted: Sequence[tuple[Running, list[Asked]]],
        found: Mapping[tuple[str, UUID], Found],
        settled: Collection[UUID],
    ) -> None:
        with self._connection.transaction():
            for rule, events in wanted:
                self._put(rule, events, found, settled)
            self._enter_corpus(running)

    def settle(self, running: Sequence[Running], watermarks: Mapping[str, int | None]) -> bool:
        """Contexts of settled events that every stream of their rule has passed; they enter the corpus.

        Where a context has changed, the event's similarity recalls begin again. Returns whether anything was settled.
        """
        due: list[tuple[Running, list[Asked]]] = []
        before: dict[tuple[str, UUID], Any] = {}
        for rule in running:
            horizon = self._around.horizon(rule, watermarks)
            if horizon is None:
                continue
            values = {**_of_rule(rule), "before": from_micros(horizon), "limit": _EVENTS}
            with self._connection.cursor(row_factory=dict_row) as cursor:
                rows = cursor.execute(_QUERIES["unsettled"], values).fetchall()
            if rows:
                due.append((rule, [_asked(row) for row in rows]))
                before |= {(rule.rule, row["eid"]): row["contexts"] for row in rows}
        found = self._around.compute(due) if due else {}
        due = [(rule, [event for event in events if self._may_settle(rule, event, found)]) for rule, events in due]
        changed = [
            (event.eid, rule.definition.version)
            for rule, events in due
            for event in events
            if sql.storable(found[rule.rule, event.eid].contexts) != before[rule.rule, event.eid]
        ]
        twice(lambda: self._store_settled(running, due, found, changed))
        return any(events for _, events in due)

    def _store_settled(
        self,
        running: Sequence[Running],
        due: Sequence[tuple[Running, list[Asked]]],
        found: Mapping[tuple[str, UUID], Found],
        changed: Collection[tuple[UUID, str]],
    ) -> None:
        with self._connection.transaction():
            for rule, events in due:
                self._put(rule, events, found, {event.eid for event in events})
                # Recalls that wait for this look at alerts that have changed.
                self._connection.execute(_QUERIES["touch"], {**_of_rule(rule), "eids": [e.eid for e in events]})
            if changed:
                self._ledger.again(changed)
            self._connection.execute(_QUERIES["forget"], {"every": _every_of(running)})
            self._enter_corpus(running)

    def _may_settle(self, rule: Running, event: Asked, found: dict[tuple[str, UUID], Found]) -> bool:
        """Whether its context was computed, or has failed too often: then it is empty for good."""
        key = rule.rule, event.eid
        if key in found:
            self._failed.pop(key, None)
            return True
        self._failed[key] = self._failed.get(key, 0) + 1
        if self._failed[key] < _TRIES:
            return False
        del self._failed[key]
        found[key] = self._around.found(rule, {})
        return True

    def reach(self, rule: Running) -> int:
        """How far beyond an event (microseconds) time must go until its context can be settled."""
        return self._around.reach(rule)

    def _enter_corpus(self, running: Sequence[Running]) -> None:
        """What is ready enters the corpus; later events that were compared without it are compared again."""
        self._connection.execute(_QUERIES["in_turn"])
        entered: dict[tuple[str, str], int] = {}
        for rule, version, ts in self._connection.execute(_QUERIES["enter_corpus"], {"every": _every_of(running)}):
            entered[rule, version] = min(ts, entered.get((rule, version), ts))
        for (rule, version), oldest in entered.items():
            self._ledger.again_where_incomplete(rule, version, oldest)

    def needs(self, running: Sequence[Running], watermarks: Mapping[str, int | None]) -> dict[str, int]:
        """From which event time on the contexts of events to come look at each stream."""
        needs: dict[str, int] = {}
        for rule in running:
            for asking in self._around.of(rule):
                used = asking.query.used
                for stream in used.streams | used.derived:
                    mark = watermarks.get(stream)
                    if mark is not None:
                        low = mark - asking.ask.within - asking.ask.delay - used.reach - _SPARE
                        needs[stream] = min(needs.get(stream, low), low)
        return needs

    def _put(
        self, rule: Running, events: Sequence[Asked], found: Mapping[tuple[str, UUID], Found], settled: Collection[UUID]
    ) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(
                _QUERIES["put"],
                [
                    {
                        **_of_rule(rule),
                        "eid": event.eid,
                        "ts": from_micros(event.ts),
                        "contexts": Jsonb(sql.storable(found[rule.rule, event.eid].contexts)),
                        "surroundings": Jsonb(sql.storable(found[rule.rule, event.eid].surroundings)),
                        "settled": event.eid in settled,
                    }
                    for event in events
                ],
            )


def _of_rule(rule: Running) -> dict[str, Any]:
    return {"rule": rule.rule, "version": rule.definition.version}


def _every(rule: Running) -> bool:
    return rule.definition.rule.spec.recall_on == "every"


def _every_of(running: Sequence[Running]) -> list[str]:
    return [rule.rule for rule in running if _every(rule)]


def _asked(row: Mapping[str, Any]) -> Asked:
    return Asked(row["eid"], row["ts"], row["key"], row["attributes"])
