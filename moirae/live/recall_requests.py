"""Alerts begin to fire: their recalls begin. What has none yet is read from the database, so that none is forgotten."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from psycopg import Connection
from psycopg.rows import dict_row

import sql
from archiver.times import from_micros
from moirae.evaluation import ActiveRule
from moirae.rules import Definition, SqlRecall, build_questions
from recall.ledger import Ledger
from recall.query import tables_used
from recall.requests import AnyQuestion, RecallEvent, RecallRequest

_UNREQUESTED_QUERY = sql.load("contexts")["untasked"]

_BATCH_EVENTS = 500
# Events that are older than the newest by so much, in microseconds of event time, are history when they are found:
# nobody waits for their recalls.
_BACKGROUND_AGE = 600_000_000


class RecallRequests:
    """Adds tasks to the recall ledger."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection
        self._ledger = Ledger(connection)
        self._questions: dict[str, tuple[Definition, dict[str, AnyQuestion]]] = {}

    def add_missing(
        self, active_rules: Sequence[ActiveRule], since: Any, newest: int | None, with_context: bool
    ) -> bool:
        """Begin recalls of alerts written since a moment that have none: those that need a context, or the others.

        `newest`: the newest event time of the archive. Returns whether there may be more.
        """
        more = False
        for rule in active_rules:
            spec = rule.definition.rule.spec
            for name, question in self._rule_questions(rule).items():
                recall = spec.recall[name]
                own = frozenset({*spec.context, *spec.surroundings})
                needs = not isinstance(recall, SqlRecall) or bool(tables_used(recall.sql, own))
                if needs == with_context:
                    more = self._add_recall(rule, name, question, since, newest, needs) or more
        return more

    def _add_recall(
        self,
        rule: ActiveRule,
        name: str,
        question: AnyQuestion,
        since: Any,
        newest: int | None,
        needs: bool,
    ) -> bool:
        past = None if newest is None else from_micros(newest - _BACKGROUND_AGE)
        values = {
            "rule": rule.name,
            "version": rule.definition.version,
            "recall": name,
            "context": needs,
            "every": rule.definition.rule.spec.recall_on == "every",
            "since": since,
            "past": past or datetime.min.replace(tzinfo=UTC),
            "limit": _BATCH_EVENTS,
        }
        with self._connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(_UNREQUESTED_QUERY, values).fetchall()
        requests = []
        for row in rows:
            asked = RecallEvent(row["eid"], row["ts"], row["key"], row["attributes"])
            level = int(row["background"])
            requests.append(
                RecallRequest(rule.name, rule.definition.version, name, question, asked, level)
            )
        if requests:
            with self._connection.transaction():
                self._ledger.add(requests)
        return len(rows) == _BATCH_EVENTS

    def _rule_questions(self, rule: ActiveRule) -> dict[str, AnyQuestion]:
        known = self._questions.get(rule.name)
        if known is None or known[0] is not rule.definition:
            known = self._questions[rule.name] = (
                rule.definition,
                build_questions(rule.definition, rule.tables),
            )
        return known[1]
