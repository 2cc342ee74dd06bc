"""Computes the past of a rule by its own queries over archived rows: events and contexts."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pyarrow as pa
import structlog
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from archiver.read import WIDE_SCAN_ROWS, Reader
from archiver.time_range import TimeRange
from archiver.times import Micros
from moirae.alerts import AlertStream, Event, EventColumns, deduplicate
from moirae.errors import RuleFailed
from moirae.evaluation import (
    ArchivedStreamRows,
    ContextEvaluator,
    EvaluationRequest,
    EventContexts,
    LostRow,
    NecessaryScan,
    RecallAnswers,
    RowSource,
    RuleGroup,
    divide_result,
    evaluate_groups,
)
from moirae.evaluation.plan import ActiveRule, RuleSlice
from moirae.history.engines import MAX_PAST_EVENT_ROWS, TIME_LIMIT, PastEngines
from moirae.rules.requests import build_event_plan, build_questions
from recall.engines import (
    AnswerRows,
    DuckDBStatements,
    EventTables,
    LocalEngine,
    SparkEngine,
    Template,
    WideScanEngine,
    evaluate_condition,
    merge_partials,
)
from recall.engines.isolation import run_isolated, split_in_halves
from recall.engines.routing import EngineRouter, EngineSetting, PartialCache
from recall.errors import RecallError, SparkRequired
from recall.norms import AlertSpan
from recall.requests import Piece, RecallEvent, SqlQuestion
from recall.stages import make_final_answer
from recall.statements import NO_EXTERNAL_ACCESS

AnswersByRecall = Mapping[str, Sequence[Mapping[str, Any]]]
"""The rows of the answers about an event, by recall."""

AlertsByEvent = Mapping[UUID, Sequence[AlertSpan]]
"""The spans of the alerts of an event's key, by event ID; see `RecallEvent.alerts`."""

_LOG = structlog.get_logger()
_QUERY_ERRORS = (PySparkException, Py4JJavaError, pa.ArrowException, RecallError)
_EVENTS_PER_STATEMENT = 500  # events whose contexts one statement computes


@dataclass(frozen=True)
class RelationVersions:
    """The relations of a workspace. `read` returns all versions of the rows of one.

    `columns`: the types of their columns, by name. `alerts`: that contexts read, too; None: there
    are none.
    """

    read: Callable[[str], pa.Table]
    names: frozenset[str]
    columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    alerts: AlertStream | None = None


class PastFinder:
    """Evaluates rules over the archive. Replaces the temporary views of the session."""

    def __init__(
        self,
        spark: SparkSession,
        reader: Reader,
        relations: RelationVersions,
        setting: EngineSetting = "auto",
        store_losses: Callable[[Sequence[LostRow]], None] = lambda rows: None,
        first_times: Mapping[str, Micros] | None = None,
        engines: PastEngines | None = None,
    ) -> None:
        """`engines`: of the same session, setting and columns, for one archive after the other.

        `setting`: the key `recall.engine` of the workspace.

        `store_losses`: gets the rows over which a rule has no verdict. `first_times`: of the first
        row of streams, where it is stored.
        """
        self._store_losses = store_losses
        self.spark = spark
        self._rows = ArchivedStreamRows(
            spark, reader, first_times=first_times, alerts=relations.alerts
        )
        self._relation_columns = relations.columns
        if engines is None:
            columns = {name: self._rows.columns(name) for name in reader.streams}
            engines = PastEngines(spark, columns, relations.columns, setting)
        self._rule_engines = engines
        self._choice = engines.choice
        self._context_evaluator = ContextEvaluator(spark, self._rows)
        self._duckdb = DuckDBStatements(NO_EXTERNAL_ACCESS)
        jobs = engines.jobs
        self._necessary = NecessaryScan(reader, jobs)
        self._spark_engine = SparkEngine(lambda: spark, reader, relations.read)
        self._engines = EngineRouter(
            self._spark_engine,
            LocalEngine(reader) if self._choice.allows_duckdb else None,
            PartialCache(0),
            setting=engines.setting,
            wide_scans=WideScanEngine(lambda: jobs, reader, TIME_LIMIT),
        )
        reader.refresh()
        for name in relations.names:
            engines.set_relation(name, relations.read(name))

    def find_events(self, rule: ActiveRule, time_range: TimeRange) -> list[Event]:
        """All events with ts in a range. Their input must be archived. Raises `LimitExceeded`.

        Tasks get names of files, and return event rows only.
        """
        outcome = self._evaluate_rule(rule, time_range)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def find_tried_events(self, rule: ActiveRule, time_range: TimeRange) -> list[Event]:
        """All events with ts in a range, of a rule that may not run. Raises `RuleFailed`."""
        outcome = self._evaluate_rule(rule, time_range)
        if isinstance(outcome, Exception):
            raise RuleFailed(rule.name, outcome) from outcome
        return outcome

    def _evaluate_rule(self, rule: ActiveRule, time_range: TimeRange) -> list[Event] | Exception:
        """All events with ts in a range, or why the rule fails on its rows, such as by a division by
        zero.
        """
        return self._evaluate(*self._prepare([rule], time_range))[rule]

    def find_event_columns(
        self, rules: Sequence[ActiveRule], time_range: TimeRange
    ) -> dict[ActiveRule, list[EventColumns] | Exception]:
        """The events of rules of one shape, in one pass; a rule that fails has its error.

        Those of plain rules become objects when they are needed.
        """
        groups, request = self._prepare(rules, time_range)
        columns: dict[ActiveRule, list[EventColumns] | Exception] = {}
        if self._is_in_memory(groups, request):
            try:
                for group in groups:
                    result = self._rule_engines.duckdb_rules.run_query(group, request)
                    columns.update(divide_result(group, result, time_range))
                return columns
            except SparkRequired:
                pass  # the other engines decide, and report errors
        for rule, outcome in self._evaluate(groups, request).items():
            if isinstance(outcome, Exception):
                columns[rule] = outcome
            else:
                columns[rule] = [EventColumns.of_events(outcome)]
        return columns

    def _is_in_memory(self, groups: Sequence[RuleGroup], request: EvaluationRequest) -> bool:
        """Whether this process holds all that plain rules without joins need."""
        return (
            self._choice.allows_duckdb
            and all(group.query and not group.query.has_relations for group in groups)
            and all(source.table is not None for source in request.sources.values())
        )

    def _prepare(
        self, rules: Sequence[ActiveRule], time_range: TimeRange
    ) -> tuple[Sequence[RuleGroup], EvaluationRequest]:
        """The groups of rules of one shape, and the rows that they are evaluated over."""
        shape = rules[0].shape
        input_range = time_range.shift(start=-shape.reach, end=shape.lag)
        rule_slice = RuleSlice(tuple(rules), time_range, input_range)
        groups = self._rule_engines.grouper.group(rules)
        sources = {stream: self._rows.find_range(stream, input_range) for stream in shape.streams}
        if self._choice.allows_duckdb and all(group.query is not None for group in groups):
            sources = {
                stream: self._load(groups, stream, source, input_range)
                for stream, source in sources.items()
            }
        return groups, EvaluationRequest(sources, rule_slice)

    def _evaluate(
        self, groups: Sequence[RuleGroup], request: EvaluationRequest
    ) -> dict[ActiveRule, list[Event] | Exception]:
        rule_slice = request.rule_slice
        assert rule_slice is not None
        evaluation = evaluate_groups(groups, request, self._rule_engines.rule_engines)
        if evaluation.lost_rows:
            self._store_losses(evaluation.lost_rows)
        outcomes: dict[ActiveRule, list[Event] | Exception] = {}
        for rule in rule_slice.rules:
            event_rows = rule_slice.select_event_rows(evaluation.event_rows.get(rule, []))
            identity = (rule.definition.id, rule.definition.key)
            outcomes[rule] = deduplicate(rule.name, *identity, event_rows)
        for failure in evaluation.failures:
            outcomes[failure.rule] = failure.error
        return outcomes

    def _load(
        self,
        groups: Sequence[RuleGroup],
        stream: str,
        source: RowSource,
        input_range: TimeRange,
    ) -> RowSource:
        """The rows that this process may evaluate in memory: few, or those that plain rules need."""
        if source.files is None:
            return source
        if source.count <= WIDE_SCAN_ROWS and not self._choice.runs_in_tasks(source.count):
            return source.load(WIDE_SCAN_ROWS) or source
        if any(len(group.streams) > 1 for group in groups):
            return source
        rows = self._necessary.read(groups, stream, input_range, MAX_PAST_EVENT_ROWS)
        return source if rows is None else source.reduce(rows)

    def compute_contexts(
        self, rule: ActiveRule, events: Sequence[Event]
    ) -> dict[UUID, EventContexts]:
        """The contexts of events: empty if the rule has none, or if they cannot be computed."""
        empty = self._context_evaluator.parse_contexts(rule, {})
        contexts = dict.fromkeys((event.eid for event in events), empty)
        if not self._context_evaluator.queries_of(rule):
            return contexts
        for batch in _divide(events):
            answers: RecallAnswers = {}
            names = self._context_evaluator.recalls_of(rule)
            if names:
                answers = self._answer_recalls(rule, batch, names)
            computed = self._context_evaluator.compute([(rule, batch)], answers)
            for (_, eid), event_contexts in computed.items():
                contexts[eid] = event_contexts
        return contexts

    def answer_recalls(
        self,
        rule: ActiveRule,
        events: Sequence[Event],
        names: Collection[str],
        previous: Mapping[UUID, Micros] = MappingProxyType({}),
        alerts: AlertsByEvent = MappingProxyType({}),
    ) -> dict[UUID, AnswersByRecall]:
        """The final answers of SQL recalls, over rows before each event only.

        A recall that fails has no answer. `previous`, `alerts`: see `RecallEvent`, by event ID.
        """
        answers: dict[UUID, AnswersByRecall] = {}
        for batch in _divide(events):
            batch = [
                replace(
                    event, previous=previous.get(event.eid), alerts=tuple(alerts.get(event.eid, ()))
                )
                for event in batch
            ]
            for (_, eid), rows in self._answer_recalls(rule, batch, names).items():
                answers[eid] = rows
        return answers

    def evaluate_conditions(
        self,
        rule: ActiveRule,
        events: Sequence[Event],
        alerts: AlertsByEvent = MappingProxyType({}),
    ) -> dict[UUID, bool | None]:
        """What `where` of a rule says of events in the end; None: NULL, or it has failed.

        `alerts`: see `answer_recalls`.
        """
        plan = build_event_plan(rule.definition, rule.tables, self._relation_columns)
        condition = plan.condition
        assert condition is not None
        answers = self.answer_recalls(rule, events, condition.judged.keys(), alerts=alerts)
        questions = build_questions(rule.definition, rule.tables)
        verdicts: dict[UUID, bool | None] = {}
        for event in events:
            rows = answers.get(event.eid, {})
            recall_event = _to_recall_event(event)
            judged = {}
            for name, types in condition.judged.items():
                answer: AnswerRows = []
                if name in rows:
                    asked_range = questions[name].asked_range(event.ts)
                    answer = make_final_answer(rows[name], asked_range).judged_rows
                judged[name] = answer, types
            try:
                verdicts[event.eid] = self._choice.run(
                    partial(evaluate_condition, condition, recall_event, judged, self._duckdb),
                    partial(self._spark_engine.evaluate_condition, condition, recall_event, judged),
                )
            except _QUERY_ERRORS as error:
                _report_failure("condition of a past event failed", error)
                verdicts[event.eid] = None
        return verdicts

    def _answer_recalls(
        self, rule: ActiveRule, events: Sequence[RecallEvent], names: Collection[str]
    ) -> RecallAnswers:
        """The answers of some recalls, over the history before each event.

        One scan serves all events. A recall that fails has no rows, as for a new event.
        """
        questions = build_questions(rule.definition, rule.tables)
        templates: dict[str, Template] = {}
        for name in names:
            question = questions[name]
            assert isinstance(question, SqlQuestion)
            templates[name] = Template(question)
        event_tables: EventTables = {}
        if any(template.reads_event_tables for template in templates.values()):
            event_tables = self._event_tables(rule, events)
        answers: dict[tuple[str, UUID], dict[str, AnswerRows]] = {}
        for name, template in templates.items():
            for eid, rows in self._answer(template, events, event_tables).items():
                answers.setdefault((rule.name, UUID(eid)), {})[name] = rows
        return answers

    def _event_tables(self, rule: ActiveRule, events: Sequence[RecallEvent]) -> EventTables:
        """The rows of the contexts and surroundings that read no recalls."""
        tables: dict[str, dict[str, Sequence[Mapping[str, Any]]]] = {}
        for (_, eid), computed in self._context_evaluator.compute([(rule, events)]).items():
            for name, rows in {**computed.contexts, **computed.surroundings}.items():
                tables.setdefault(name, {})[str(eid)] = rows
        return tables

    def _answer(
        self, template: Template, events: Sequence[RecallEvent], event_tables: EventTables
    ) -> dict[str, AnswerRows]:
        """The answers by event ID; events whose query fails are logged and left out."""
        question = template.question

        def compute(part: Sequence[RecallEvent]) -> dict[str, AnswerRows]:
            pieces: list[tuple[RecallEvent, Piece]] = []
            for event in part:
                ranges = question.asked_ranges(event.ts, event.previous) or (
                    TimeRange(event.ts, event.ts),
                )
                pieces.append((event, Piece.of_ranges(0, ranges)))
            partials = self._engines.compute_partial(template, pieces, event_tables)
            merged = []
            for event in part:
                partial = partials.get(str(event.eid))
                merged.append((event, merge_partials(template, None, partial)))
            return self._engines.compute_answers(template, merged, event_tables)

        answers: dict[str, AnswerRows] = {}
        for _, outcome in run_isolated(events, compute, _QUERY_ERRORS, split_in_halves):
            if isinstance(outcome, Exception):
                _report_failure("recall of a past event failed", outcome)
            else:
                answers |= outcome
        return answers


def _report_failure(what: str, error: Exception) -> None:
    message = (str(error).strip().splitlines() or [type(error).__name__])[0]
    _LOG.error(what, action="past_recall_failed", error=message)


def _divide(events: Sequence[Event]) -> Iterator[list[RecallEvent]]:
    """Events of which one statement is run for each part."""
    for first in range(0, len(events), _EVENTS_PER_STATEMENT):
        yield list(map(_to_recall_event, events[first : first + _EVENTS_PER_STATEMENT]))


def _to_recall_event(event: Event) -> RecallEvent:
    return RecallEvent(event.eid, event.ts, event.key, event.attributes)
