"""Alerts begin to fire: their recalls begin. What has none yet is read from the database, so that none is forgotten."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from psycopg import Connection
from psycopg.rows import dict_row

import sql
from archiver.times import from_micros
from moirae.judging.plan import Running
from moirae.rules.definition import Definition
from moirae.rules.questions import SqlRecall
from moirae.rules.requests import questions
from recall.ledger import Ledger
from recall.query.lift import tables_used
from recall.request import AnyQuestion, Asked, Request

_QUERY = sql.load("contexts")["untasked"]

_EVENTS = 500
# Events that are older than the newest by so much, in microseconds of event time, are history when they are found:
# nobody waits for their recalls.
_LONG_PAST = 600_000_000


class Requests:
    """Adds tasks to the recall ledger."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection
        self._ledger = Ledger(connection)
        self._questions: dict[str, tuple[Definition, dict[str, AnyQuestion]]] = {}

    def add(self, running: Sequence[Running], since: Any, newest: int | None, with_context: bool) -> bool:
        """Begin recalls of alerts written since a moment that have none: those that need a context, or the others.

        `newest`: the newest event time of the archive. Returns whether there may be more.
        """
        more = False
        for rule in running:
            spec = rule.definition.rule.spec
            for name, question in self._of(rule).items():
                recall = spec.recall[name]
                own = frozenset({*spec.context, *spec.surroundings})
                needs = not isinstance(recall, SqlRecall) or bool(tables_used(recall.sql, own))
                if needs == with_context:
                    more = self._add(rule, name, question, since, newest, needs) or more
        return more

    def _add(
        self, rule: Running, name: str, question: AnyQuestion, since: Any, newest: int | None, needs: bool
    ) -> bool:
        past = None if newest is None else from_micros(newest - _LONG_PAST)
        values = {
            "rule": rule.rule,
            "version": rule.definition.version,
            "recall": name,
            "context": needs,
            "every": rule.definition.rule.spec.recall_on == "every",
            "since": since,
            "past": past or datetime.min.replace(tzinfo=UTC),
            "limit": _EVENTS,
        }
        with self._connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(_QUERY, values).fetchall()
        requests = []
        for row in rows:
            asked = Asked(row["eid"], row["ts"], row["key"], row["attributes"])
            level = int(row["background"])
            requests.append(Request(rule.rule, rule.definition.version, name, question, asked, level))
        if requests:
            with self._connection.transaction():
                self._ledger.add(requests)
        return len(rows) == _EVENTS

    def _of(self, rule: Running) -> dict[str, AnyQuestion]:
        known = self._questions.get(rule.rule)
        if known is None or known[0] is not rule.definition:
            known = self._questions[rule.rule] = rule.definition, questions(rule.definition, rule.tables)
        return known[1]
