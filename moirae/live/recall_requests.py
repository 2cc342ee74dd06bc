"""Recall requests: tasks for the recalls of alerts that fire.

Events without a task are read from the database, so that a restart loses none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import sql
from archiver.times import Micros, from_micros
from moirae.evaluation.plan import ActiveRule
from moirae.live.unsettled_reads import UnsettledReads
from moirae.rules import AlertSpec, Definition, HistoryRecall, find_hybrid_contexts
from moirae.rules.requests import build_event_plan, build_questions
from recall.event_plans import EventPlan
from recall.ledger import Ledger
from recall.norms import AlertSpan
from recall.query import tables_used
from recall.requests import AnyQuestion, RecallEvent, RecallRequest
from sql.events import ContextGateway, RecallNeeds, RecallOfVersion, UnrequestedEventRow

_BATCH_EVENTS = 500  # events of a recall in one statement
# Microseconds of event time: events this much older than the newest row are recalled in the
# background.
_BACKGROUND_AGE = 600_000_000


@dataclass(frozen=True)
class _RecallInput:
    """The question of a recall, and what it needs of an event."""

    question: AnyQuestion
    needs: RecallNeeds


@dataclass(frozen=True)
class _RuleRequests:
    """What is requested for the events of a rule: inputs by recall, and what follows."""

    definition: Definition
    recalls: Mapping[str, _RecallInput]
    plan: EventPlan


class RecallRequests:
    """Adds the tasks of firing alerts to the recall ledger."""

    def __init__(
        self,
        connection: sql.Connection,
        relations: Mapping[str, Mapping[str, str]],
        unsettled_reads: UnsettledReads,
    ) -> None:
        """`relations`: with the types of their columns."""
        self._connection = connection
        self._relations = relations
        self._contexts = ContextGateway(connection)
        self._ledger = Ledger(connection)
        self._unsettled_reads = unsettled_reads
        self._requests_by_rule: dict[str, _RuleRequests] = {}
        self.has_deferred = False
        """Whether the last call has left out events whose past alerts `where` has not decided yet."""

    def add_missing(
        self,
        active_rules: Sequence[ActiveRule],
        since: datetime | None,
        newest: Micros | None,
        with_context: bool,
    ) -> bool:
        """Add the missing tasks of alerts changed since a moment; None: of all alerts.

        `with_context`: of the recalls that need a context, else of those that do not. `newest`: the
        newest event time of the archive. Returns whether there may be more.
        """
        background_before = datetime.min.replace(tzinfo=UTC)
        if newest is not None:
            background_before = from_micros(newest - _BACKGROUND_AGE)
        has_more = False
        self.has_deferred = False
        for rule in active_rules:
            requests = self._rule_requests(rule)
            for name, recall in requests.recalls.items():
                if recall.needs.context != with_context:
                    continue
                events = self._contexts.list_unrequested(
                    RecallOfVersion(rule.name, rule.version, name),
                    every_event=rule.recalls_every_event,
                    needs=recall.needs,
                    background_before=background_before,
                    since=since,
                    limit=_BATCH_EVENTS,
                )
                decided = [event for event in events if not event.undecided]
                self._add_tasks(rule, name, recall.question, decided)
                self.has_deferred = self.has_deferred or len(decided) < len(events)
                has_more = has_more or len(decided) == _BATCH_EVENTS
        return has_more

    def _add_tasks(
        self,
        rule: ActiveRule,
        recall: str,
        question: AnyQuestion,
        rows: Sequence[UnrequestedEventRow],
    ) -> None:
        if not rows:
            return
        requests: list[RecallRequest] = []
        version = rule.version
        plan = self._rule_requests(rule).plan
        for row in rows:
            alerts = tuple(map(AlertSpan.from_json, row.alerts or ()))
            event = RecallEvent(row.eid, row.ts, row.key, row.attributes, row.previous, alerts)
            level = int(row.background)
            requests.append(RecallRequest(rule.name, version, recall, question, event, level, plan))
        with self._connection.transaction():
            self._ledger.add(requests)
            self._unsettled_reads.add(requests)

    def _rule_requests(self, rule: ActiveRule) -> _RuleRequests:
        """The recalls of a rule and the plan; cached for each definition."""
        requests = self._requests_by_rule.get(rule.name)
        if requests is None or requests.definition is not rule.definition:
            questions = build_questions(rule.definition, rule.tables)
            recalls = {
                name: _find_needs(rule.spec, name, question) for name, question in questions.items()
            }
            plan = build_event_plan(rule.definition, rule.tables, self._relations)
            requests = _RuleRequests(rule.definition, recalls, plan)
            self._requests_by_rule[rule.name] = requests
        return requests


def _find_needs(spec: AlertSpec, name: str, question: AnyQuestion) -> _RecallInput:
    recall = spec.recall[name]
    if not isinstance(recall, HistoryRecall):
        return _RecallInput(question, RecallNeeds(context=True, settled=False))
    contexts = tables_used(recall.sql, {*spec.context, *spec.surroundings})
    hybrid_contexts = tables_used(recall.sql, find_hybrid_contexts(spec).keys())
    needs = RecallNeeds(
        bool(contexts),
        bool(hybrid_contexts),
        previous=question.until is not None,
        alerts=question.needs_alerts,
        incidents=question.needs_incidents,
    )
    return _RecallInput(question, needs)
