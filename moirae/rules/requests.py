"""Convert the queries of a rule into context queries and recall questions. No I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from sqlglot import exp

from archiver.times import Micros, duration_to_micros
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
from recall.requests import AnyQuestion, SqlQuestion


@dataclass(frozen=True)
class ContextQuery:
    """A context (`is_compared`) or surrounding of a rule.

    It reads rows from `within` before to `delay` after the event.
    """

    name: str
    query: QuerySpec
    is_compared: bool
    within: Micros
    delay: Micros


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
    return lift_query(context_query.query.sql, build_scope(definition, tables), names)


def build_questions(definition: Definition, tables: Tables) -> dict[str, AnyQuestion]:
    """The questions of a rule's recalls, by recall name."""
    questions: dict[str, AnyQuestion] = {}
    for name, recall in definition.recalls.items():
        questions[name] = _build_question(name, recall, definition, tables)
    return questions


def find_recalls_in_where(definition: Definition) -> frozenset[str]:
    """The names of the recalls that `where` refers to. Raises `Unsupported`."""
    spec = definition.spec
    if spec.where is None:
        return frozenset()
    tables = {column.table.lower() for column in parse(f"SELECT {spec.where}").find_all(exp.Column)}
    return frozenset(name for name in spec.recall if name.lower() in tables)


def _build_question(
    name: str, recall: AnyRecall, definition: Definition, tables: Tables
) -> AnyQuestion:
    if isinstance(recall, SimilarRecall):
        return definition.build_similar_question(recall)
    return _build_sql_question(name, recall, definition, tables)


def _build_sql_question(
    name: str, recall: SqlRecall, definition: Definition, tables: Tables
) -> SqlQuestion:
    spec = definition.spec
    event_tables = tables_used(recall.sql, {*spec.context, *spec.surroundings})
    condition_recalls = find_recalls_in_where(definition)
    is_in_condition = name in condition_recalls
    condition_columns: dict[str, Mapping[str, str]] = {}
    if is_in_condition:
        condition_columns = {table: definition.columns_of(table) for table in condition_recalls}
    streams, relations, derived = _select_tables(recall.sql, tables)
    return SqlQuestion(
        range=None if recall.range is None else duration_to_micros(recall.range),
        every=recall.every.total_seconds(),
        order=recall.order,
        feedback=_to_seconds(recall.feedback),
        sql=recall.sql,
        streams=streams,
        relations=relations,
        derived=derived,
        attributes=dict(definition.types),
        own={table: definition.columns_of(table) for table in event_tables},
        columns=definition.columns_of(name),
        where=spec.where if is_in_condition else None,
        judged=condition_columns,
        types=definition.merged_types.get(name, {}),
    )


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
