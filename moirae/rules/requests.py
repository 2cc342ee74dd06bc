"""What a rule asks, ready to be asked: its contexts and surroundings of Spark, its recalls of the past. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from sqlglot import exp

from archiver.times import duration_to_micros
from moirae.rules.definition import Definition
from moirae.rules.questions import AnyRecall, QuerySpec, SimilarRecall, SqlRecall
from recall.query import (
    EventScope,
    LiftedQuery,
    TableBindings,
    Tables,
    lift_query,
    parse,
    tables_used,
)
from recall.requests import AnyQuestion, SimilarQuestion, SqlQuestion


@dataclass(frozen=True)
class ContextQuery:
    """A context or surrounding of a rule. `within` and `delay` in microseconds around the event."""

    name: str
    query: QuerySpec
    is_compared: bool
    within: int
    delay: int


def build_context_queries(definition: Definition) -> list[ContextQuery]:
    """The contexts of a rule, then its surroundings."""
    spec = definition.rule.spec
    both = [(spec.context, True), (spec.surroundings, False)]
    return [
        ContextQuery(
            name,
            query,
            compared,
            duration_to_micros(query.within) if query.within else 0,
            duration_to_micros(spec.delay if query.delay is None else query.delay),
        )
        for queries, compared in both
        for name, query in queries.items()
    ]


def build_scope(definition: Definition, tables: Tables, own: Iterable[str] = ()) -> EventScope:
    """What the queries of a rule may name."""
    return EventScope(tables, tuple(definition.types), frozenset(own))


def lift_context_query(
    context_query: ContextQuery, definition: Definition, tables: Tables, names: TableBindings
) -> LiftedQuery:
    """The query of a context for many events. Raises `Unsupported`."""
    return lift_query(context_query.query.sql, build_scope(definition, tables), names)


def build_questions(definition: Definition, tables: Tables) -> dict[str, AnyQuestion]:
    """The recalls of a rule by name."""
    return {
        name: _build_question(recall, definition, tables)
        for name, recall in definition.rule.spec.recall.items()
    }


def recalls_named_in_where(definition: Definition) -> frozenset[str]:
    """The recalls on which the rule's condition decides."""
    spec = definition.rule.spec
    if spec.where is None:
        return frozenset()
    tables = {column.table.lower() for column in parse(f"SELECT {spec.where}").find_all(exp.Column)}
    return frozenset(name for name in spec.recall if name.lower() in tables)


def _build_question(recall: AnyRecall, definition: Definition, tables: Tables) -> AnyQuestion:
    if isinstance(recall, SimilarRecall):
        return build_similar_question(recall, definition)
    return _build_sql_question(recall, definition, tables)


def build_similar_question(recall: SimilarRecall, definition: Definition) -> SimilarQuestion:
    """A similarity recall of a rule."""
    similar, spec = recall.similar, definition.rule.spec
    contexts = similar.contexts or tuple(spec.context)
    return SimilarQuestion(
        range=None,
        every=recall.every.total_seconds(),
        order=similar.order,
        feedback=_seconds(recall.feedback),
        contexts=contexts,
        k=similar.k,
        measure=similar.measure,
        gap=duration_to_micros(similar.gap),
        numeric={
            column: h for name in contexts for column, h in spec.context[name].numeric.items()
        },
    )


def _build_sql_question(recall: SqlRecall, definition: Definition, tables: Tables) -> SqlQuestion:
    spec = definition.rule.spec
    own = {
        name: definition.columns_of(name)
        for name in tables_used(recall.sql, {*spec.context, *spec.surroundings})
    }
    name = next(name for name, other in spec.recall.items() if other is recall)
    judged: Mapping[str, Mapping[str, str]] = {}
    if name in recalls_named_in_where(definition):
        judged = {
            other: definition.columns_of(other) for other in recalls_named_in_where(definition)
        }
    used = tables_used(recall.sql, {*tables.streams, *tables.relations, *tables.derived})
    derived = (
        {one: tables.derived[one] for one in tables.derived} if used & tables.derived.keys() else {}
    )
    streams = (
        tables.streams
        if derived
        else {one: tables.streams[one] for one in used & tables.streams.keys()}
    )
    return SqlQuestion(
        range=None if recall.range is None else duration_to_micros(recall.range),
        every=recall.every.total_seconds(),
        order=recall.order,
        feedback=_seconds(recall.feedback),
        sql=recall.sql,
        streams=dict(streams),
        relations=tuple(sorted(tables.relations if derived else used & tables.relations)),
        derived=dict(derived),
        attributes=dict(definition.types),
        own=own,
        columns=definition.columns_of(name),
        where=spec.where if judged else None,
        judged=judged,
        types=definition.merged_types.get(name, {}),
    )


def _seconds(length: timedelta | None) -> float | None:
    return None if length is None else length.total_seconds()
