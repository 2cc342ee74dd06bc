"""Convert the queries of a rule into context queries and recall questions. No I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from sqlglot import exp

from archiver.times import Micros, duration_to_micros
from moirae.rules.alert_table import add_alerts, add_past_alerts
from moirae.rules.answer_coverage import find_named_coverage
from moirae.rules.definition import Definition
from moirae.rules.external import LABELS_SQL
from moirae.rules.history_range import HistoryRange
from moirae.rules.hybrid_contexts import recalls_named_in
from moirae.rules.questions import (
    AnyRecall,
    HistoryRecall,
    NormalRecall,
    QuerySpec,
    SimilarRecall,
    ThenStage,
)
from recall.event_plans import EventPlan, Stage
from recall.query import Tables, parse, row_key_columns, tables_used
from recall.query.lift import EventScope, LiftedQuery, TableBindings, lift_query
from recall.requests import AnyQuestion, SqlQuestion


@dataclass(frozen=True)
class ContextQuery:
    """A context (`is_compared`) or surrounding of a rule.

    It reads rows from `within` before to `delay` after the event, and the answers of `recalls`.
    """

    name: str
    query: QuerySpec
    is_compared: bool
    within: Micros
    delay: Micros
    recalls: frozenset[str] = frozenset()
    is_labels: bool = False
    """Whether it stands for the labels of a posted alert: one row with a column for each."""


def build_context_queries(definition: Definition) -> list[ContextQuery]:
    """The contexts of a rule, then its surroundings."""
    spec = definition.spec
    context_queries: list[ContextQuery] = []
    sections: list[tuple[Mapping[str, QuerySpec], bool]] = [
        (spec.context, True),
        (spec.surroundings, False),
    ]
    for queries, is_compared in sections:
        for name, query in queries.items():
            within = query.within or timedelta(0)
            delay = spec.delay if query.delay is None else query.delay
            context_query = ContextQuery(
                name=name,
                query=query,
                is_compared=is_compared,
                within=duration_to_micros(within),
                delay=duration_to_micros(delay),
                recalls=recalls_named_in(query, spec),
                is_labels=spec.external and is_compared and query.sql == LABELS_SQL,
            )
            context_queries.append(context_query)
    return context_queries


def build_scope(
    definition: Definition, tables: Tables, event_tables: Iterable[str] = ()
) -> EventScope:
    """The names that a query of the rule may use; `event_tables` have rows for each event."""
    return EventScope(tables, tuple(definition.types), frozenset(event_tables))


def lift_context_query(
    context_query: ContextQuery, definition: Definition, tables: Tables, names: TableBindings
) -> LiftedQuery:
    """Rewrite the query of a context for many events at once. Raises `Unsupported`."""
    scope = build_scope(definition, add_alerts(tables), context_query.recalls)
    return lift_query(context_query.query.sql, scope, names)


def build_questions(definition: Definition, tables: Tables) -> dict[str, AnyQuestion]:
    """The questions of a rule's recalls, by recall name."""
    questions: dict[str, AnyQuestion] = {}
    for name, recall in definition.recalls.items():
        questions[name] = _build_question(name, recall, definition, tables)
    return questions


def build_event_plan(
    definition: Definition, tables: Tables, relations: Mapping[str, Mapping[str, str]]
) -> EventPlan:
    """What follows from the recalls of an event; `relations`: with the types of their columns."""
    spec = definition.spec
    judged = {}
    judged_coverage = condition_coverage(definition, tables)
    for name in sorted(find_recalls_in_where(definition)):
        judged[name] = {**definition.columns_of(name), **judged_coverage.get(name, {})}
    stages = []
    for stage in spec.then:
        stages.append(_build_stage(stage, definition, tables, relations))
    contexts = {*spec.context, *spec.surroundings}
    similar = []
    needs_corpus = any(tables_used(stage.sql, contexts) for stage in spec.then)
    for name, recall in spec.recall.items():
        if isinstance(recall, SimilarRecall):
            similar.append(name)
        elif tables_used(recall.sql, contexts):
            needs_corpus = True
    return EventPlan(
        recalls=tuple(spec.recall),
        similar=tuple(similar),
        stages=tuple(stages),
        where=spec.where,
        judged=judged,
        attributes=dict(definition.types),
        key_types={name: definition.types[name] for name in definition.key},
        needs_corpus=needs_corpus or bool(similar),
        every_event=definition.recalls_every_event,
        every=min((recall.every.total_seconds() for recall in spec.recall.values()), default=1.0),
        judged_coverage=tuple(sorted(judged_coverage)),
    )


def stage_inputs(stage: ThenStage, definition: Definition) -> dict[str, Mapping[str, str]]:
    """The tables with rows for each event that a stage names, with their columns."""
    spec = definition.spec
    inputs: dict[str, Mapping[str, str]] = {}
    for name in tables_used(stage.sql, {*spec.context, *spec.surroundings}):
        inputs[name] = definition.columns_of(name)
    for name in tables_used(stage.sql, {*spec.recall, *(other.stream for other in spec.then)}):
        inputs[name] = definition.output_columns(name)
    return dict(sorted(inputs.items()))


def stage_coverage(
    stage: ThenStage, definition: Definition, tables: Tables
) -> dict[str, dict[str, str]]:
    """The columns of coverage and estimates that a stage names, by recall. Raises `Unsupported`."""
    recalls = tables_used(stage.sql, definition.spec.recall)
    return find_named_coverage(parse(stage.sql), recalls, definition, tables)


def condition_coverage(definition: Definition, tables: Tables) -> dict[str, dict[str, str]]:
    """The columns of coverage and estimates that `where` names, by recall. Raises `Unsupported`."""
    recalls = find_recalls_in_where(definition)
    if not recalls:
        return {}
    joined = ", ".join(sorted(recalls))
    condition = parse(f"SELECT {definition.spec.where} FROM {joined}")
    return find_named_coverage(condition, recalls, definition, tables)


def _build_stage(
    stage: ThenStage,
    definition: Definition,
    tables: Tables,
    relation_columns: Mapping[str, Mapping[str, str]],
) -> Stage:
    streams, relations, derived = _select_tables(stage.sql, tables)
    delay = definition.spec.delay if stage.delay is None else stage.delay
    return Stage(
        name=stage.stream,
        sql=stage.sql,
        inputs=stage_inputs(stage, definition),
        columns=definition.result_columns.get(stage.stream, {}),
        row_key=row_key_columns(stage.sql),
        streams=streams,
        relations={name: relation_columns[name] for name in relations},
        derived=derived,
        within=duration_to_micros(stage.within or timedelta(0)),
        delay=duration_to_micros(delay),
        analysis=stage.analysis,
        coverage=stage_coverage(stage, definition, tables),
    )


def find_recalls_in_where(definition: Definition) -> frozenset[str]:
    """The names of the recalls that `where` refers to. Raises `Unsupported`."""
    spec = definition.spec
    if spec.where is None:
        return frozenset()
    tables = {column.table.lower() for column in parse(f"SELECT {spec.where}").find_all(exp.Column)}
    return frozenset(name for name in spec.recall if name.lower() in tables)


def where_needs_alerts(definition: Definition, tables: Tables) -> bool:
    """Whether `where` reads a norm that leaves out the spans of earlier alerts."""
    questions = build_questions(definition, tables)
    return any(questions[name].needs_alerts for name in find_recalls_in_where(definition))


def _build_question(
    name: str, recall: AnyRecall, definition: Definition, tables: Tables
) -> AnyQuestion:
    if isinstance(recall, SimilarRecall):
        return definition.build_similar_question(recall)
    return _build_sql_question(name, recall, definition, tables)


def _build_sql_question(
    name: str, recall: HistoryRecall, definition: Definition, tables: Tables
) -> SqlQuestion:
    spec = definition.spec
    event_tables = tables_used(recall.sql, {*spec.context, *spec.surroundings})
    streams, relations, derived = _select_tables(recall.sql, add_past_alerts(tables, recall.sql))
    return SqlQuestion(
        **_describe_range(recall.range),
        **_describe_kind(recall),
        every=recall.every.total_seconds(),
        feedback=_to_seconds(recall.feedback),
        sql=recall.sql,
        streams=streams,
        relations=relations,
        derived=derived,
        attributes=dict(definition.types),
        own={table: definition.columns_of(table) for table in event_tables},
        columns=definition.columns_of(name),
        types=definition.merged_types.get(name, {}),
    )


def _describe_kind(recall: HistoryRecall) -> dict[str, Any]:
    """The fields of a question that only one kind of recall has keys for."""
    if isinstance(recall, NormalRecall):
        return {"order": "newest", "summary": "off", "norm": recall.normal.spec.to_json()}
    return {
        "order": recall.order,
        "extreme": recall.extreme,
        "fade": 1.0 if recall.fade is None else recall.fade,
        "summary": recall.summary,
    }


def _describe_range(history: HistoryRange | None) -> dict[str, Any]:
    """The fields of a question for the range of its recall."""
    fields: dict[str, Any] = {"range": None}
    if history is None:
        return fields
    if history.last is not None:
        fields["range"] = duration_to_micros(history.last.older)
        fields["offset"] = duration_to_micros(history.last.newer)
    if history.until is not None:
        fields["until"] = history.until
    if history.season is not None:
        fields["season"] = history.season.to_json()
    if history.landmark is not None:
        fields["since"] = history.landmark.to_json()
    return fields


def _select_tables(
    sql: str, tables: Tables
) -> tuple[dict[str, str], tuple[str, ...], dict[str, str]]:
    """The streams, relations and derived streams that a query needs.

    All of them if it reads a derived stream, which may read any of the others.
    """
    used = tables_used(sql, {*tables.streams, *tables.relations, *tables.derived})
    if used & tables.derived.keys():
        return dict(tables.streams), tuple(sorted(tables.relations)), dict(tables.derived)
    streams = {name: tables.streams[name] for name in used & tables.streams.keys()}
    return streams, tuple(sorted(used & tables.relations)), {}


def _to_seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()
