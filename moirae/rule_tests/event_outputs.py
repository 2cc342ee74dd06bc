"""What follows from one event of a test: contexts, answers of recalls, and rows of stages."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import orjson

from archiver.times import Micros, from_micros
from moirae.alerts import Event
from moirae.evaluation import EventContexts
from moirae.evaluation.plan import ActiveRule
from moirae.rule_tests.input_past import InputPast
from moirae.rules import SimilarRecall
from moirae.rules.requests import build_event_plan, build_questions
from recall.event_plans import EventPlan, Stage, order_stages
from recall.norms import AlertSpan
from recall.requests import RecallEvent, SimilarQuestion
from recall.revisions import context_column, describe_rows, key_rows, question_row_key
from recall.similarity import Index, SimilarState, compare, make_corpus_event
from recall.similarity.measures import TfIdfMeasure
from recall.stages import (
    StageFailure,
    StageInput,
    carry_key,
    context_tables,
    make_final_answer,
    stage_queries,
)

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class EventOutputs:
    """`until`: the time of the expectation; only stages with `analysis: present` depend on it."""

    past: InputPast
    rule: ActiveRule
    event: Event
    until: Micros

    @cached_property
    def contexts(self) -> EventContexts:
        return self.past.finder.compute_contexts(self.rule, [self.event])[self.event.eid]

    @property
    def tables(self) -> dict[str, Rows]:
        """The contexts and surroundings by name."""
        return {**self.contexts.contexts, **self.contexts.surroundings}

    def answer(self, names: Collection[str]) -> Mapping[str, Rows]:
        """The final answers of SQL recalls; a recall that fails has no rows."""
        event, previous = self.event, self._previous
        times = {} if previous is None else {event.eid: previous}
        spans = {event.eid: self._alert_spans}
        answers = self.past.finder.answer_recalls(self.rule, [event], names, times, spans)
        return answers.get(event.eid, {})

    def find_similar(self, name: str) -> Rows:
        """The past events in the final answer of a similarity recall, with their attributes."""
        attributes = {str(event.eid): event.attributes for event in self._corpus}
        rows = []
        for hit in self._hits[name]:
            past = {"rank": hit["rank"], "score": hit["score"]}
            past["ts"] = from_micros(hit["past_ts"]).isoformat()
            rows.append({**past, **attributes[hit["past_eid"]]})
        return rows

    @cached_property
    def stages(self) -> Mapping[str, Rows | StageFailure]:
        """The rows of stages, or why they have none. Those that read a failed one have none."""
        plan = self._plan
        tables = {name: self.tables.get(name, ()) for name in context_tables(plan)}
        tables |= self._recall_tables(plan)
        queries = stage_queries(plan, self.past.stages.stream_columns)
        results: dict[str, Rows | StageFailure] = {}
        for name in order_stages({stage.name: list(stage.inputs) for stage in plan.stages}):
            query = queries[name]
            inputs = {table: tables.get(table, ()) for table in query.stage.inputs}
            result = self.past.stages.evaluate(query, StageInput(self._recall_event, inputs))
            if isinstance(result, StageFailure):
                results[name] = result
                continue
            rows = list(key_rows(result, query.stage.row_key).values())
            results[name] = rows
            tables[name] = carry_key(rows, self.event.key, plan.key_types)
        return results

    def _recall_tables(self, plan: EventPlan) -> dict[str, Rows]:
        """The answers of all recalls, as stages read them."""
        tables: dict[str, Rows] = {}
        read = {name for stage in plan.stages for name in stage.inputs}
        answers = self.answer([name for name in plan.recalls if name not in plan.similar])
        for name in read & set(plan.recalls):
            question = self._questions[name]
            answer = self._hits[name] if name in plan.similar else answers.get(name, ())
            rows: Rows = list(
                key_rows(describe_rows(question, answer), question_row_key(question)).values()
            )
            if name in plan.similar:
                tables[name] = [{**self._past_columns[row["past_eid"]], **row} for row in rows]
            else:
                asked_range = question.asked_range(self.event.ts, self._previous)
                rows = make_final_answer(rows, asked_range).cover_rows(rows)
                tables[name] = carry_key(rows, self.event.key, plan.key_types)
        return tables

    @cached_property
    def _plan(self) -> EventPlan:
        plan = build_event_plan(
            self.rule.definition, self.rule.tables, self.past.stages.relation_columns
        )
        return replace(plan, stages=tuple(map(self._limit, plan.stages)))

    def _limit(self, stage: Stage) -> Stage:
        """The stage with the live rows up to the time of the expectation, if it reads all later ones."""
        if stage.analysis == "event":
            return stage
        return replace(stage, analysis="event", delay=max(0, self.until - self.event.ts))

    @cached_property
    def _questions(self) -> Mapping[str, Any]:
        return build_questions(self.rule.definition, self.rule.tables)

    @property
    def _recall_event(self) -> RecallEvent:
        event = self.event
        return RecallEvent(
            event.eid, event.ts, event.key, event.attributes, self._previous, self._alert_spans
        )

    @cached_property
    def _alert_spans(self) -> tuple[AlertSpan, ...]:
        """See `RecallEvent`."""
        if not any(question.needs_alerts for question in self._questions.values()):
            return ()
        return self.past.find_spans(self.rule, self.event)

    @cached_property
    def _previous(self) -> Micros | None:
        """See `RecallEvent`."""
        if not any(question.until for question in self._questions.values()):
            return None
        alerts = self.past.alerts(self.rule, self.until)
        times = [
            alert.lifetime.last
            for alert in alerts
            if alert.first_event.fingerprint == self.event.fingerprint
            and alert.lifetime.fired is not None
            and alert.lifetime.last < self.event.ts
        ]
        return max(times, default=None)

    # Similar events

    @cached_property
    def _corpus(self) -> Sequence[Event]:
        """The events before this one whose contexts are compared, in the order of time."""
        events: list[Event] = []
        for alert in self.past.alerts(self.rule, self.until):
            if alert.lifetime.fired is not None or self.rule.has_corpus_of_events:
                events += alert.events if self.rule.compares_every_event else alert.events[:1]
        return sorted(
            (event for event in events if event.ts < self.event.ts), key=lambda event: event.ts
        )

    @cached_property
    def _corpus_contexts(self) -> Mapping[Any, EventContexts]:
        return self.past.finder.compute_contexts(self.rule, self._corpus)

    @cached_property
    def _past_columns(self) -> Mapping[str, Mapping[str, Any]]:
        """What rows of similarity recalls carry of past events, by ID."""
        columns: dict[str, Mapping[str, Any]] = {}
        for event in self._corpus:
            contexts = {
                context_column(name): orjson.dumps(rows).decode()
                for name, rows in self._corpus_contexts[event.eid].contexts.items()
            }
            columns[str(event.eid)] = {**contexts, **event.attributes}
        return columns

    @cached_property
    def _hits(self) -> Mapping[str, Rows]:
        """The final answers of similarity recalls, by name."""
        recalls = self.rule.definition.recalls.items()
        names = [name for name, recall in recalls if isinstance(recall, SimilarRecall)]
        return {name: self._compare(self._questions[name]) for name in names}

    def _compare(self, question: SimilarQuestion) -> Rows:
        numeric = question.numeric if question.measure == TfIdfMeasure.name else {}
        index = Index(dict(numeric))
        events = [
            make_corpus_event(
                event.ts,
                str(event.eid),
                number,
                self._corpus_contexts[event.eid].contexts,
                question.contexts,
                index.numeric,
            )
            for number, event in enumerate(self._corpus, start=1)
        ]
        if not events:
            return ()
        index.add(0, events)
        contexts = self.contexts.contexts
        sequence = len(events) + 1
        state = SimilarState.resume(index, question, self._recall_event, sequence, contexts, None)
        compare(index, [state], [list(question.asked_ranges(self.event.ts))])
        return state.build_answer(index)
