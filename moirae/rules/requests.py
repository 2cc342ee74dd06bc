"""What a rule asks, ready to be asked: its contexts and surroundings of Spark, its recalls of the past. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from sqlglot import exp

from archiver.times import span
from moirae.rules.definition import Definition
from moirae.rules.questions import AnyRecall, Query, SimilarRecall, SqlRecall
from recall.query.lift import Lifted, Names, Scope, lift, tables_used
from recall.query.shape import Tables, parse
from recall.request import AnyQuestion, SimilarQuestion, SqlQuestion


@dataclass(frozen=True)
class Ask:
    """A context or surrounding of a rule. `within` and `delay` in microseconds around the event."""

    name: str
    query: Query
    compared: bool
    within: int
    delay: int


def asks(definition: Definition) -> list[Ask]:
    """The contexts of a rule, then its surroundings."""
    spec = definition.rule.spec
    both = [(spec.context, True), (spec.surroundings, False)]
    return [
        Ask(
            name,
            query,
            compared,
            span(query.within) if query.within else 0,
            span(spec.delay if query.delay is None else query.delay),
        )
        for queries, compared in both
        for name, query in queries.items()
    ]


def scope(definition: Definition, tables: Tables, own: Iterable[str] = ()) -> Scope:
    """What the queries of a rule may name."""
    return Scope(tables, tuple(definition.types), frozenset(own))


def lifted(ask: Ask, definition: Definition, tables: Tables, names: Names) -> Lifted:
    """The query of a context for many events. Raises `Unsupported`."""
    return lift(ask.query.sql, scope(definition, tables), names)


def questions(definition: Definition, tables: Tables) -> dict[str, AnyQuestion]:
    """The recalls of a rule by name."""
    return {name: _question(recall, definition, tables) for name, recall in definition.rule.spec.recall.items()}


def named_in_where(definition: Definition) -> frozenset[str]:
    """The recalls on which the rule's condition decides."""
    spec = definition.rule.spec
    if spec.where is None:
        return frozenset()
    tables = {column.table.lower() for column in parse(f"SELECT {spec.where}").find_all(exp.Column)}
    return frozenset(name for name in spec.recall if name.lower() in tables)


def _question(recall: AnyRecall, definition: Definition, tables: Tables) -> AnyQuestion:
    if isinstance(recall, SimilarRecall):
        return similar_question(recall, definition)
    return _sql(recall, definition, tables)


def similar_question(recall: SimilarRecall, definition: Definition) -> SimilarQuestion:
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
        gap=span(similar.gap),
        numeric={column: h for name in contexts for column, h in spec.context[name].numeric.items()},
    )


def _sql(recall: SqlRecall, definition: Definition, tables: Tables) -> SqlQuestion:
    spec = definition.rule.spec
    own = {name: definition.columns_of(name) for name in tables_used(recall.sql, {*spec.context, *spec.surroundings})}
    name = next(name for name, other in spec.recall.items() if other is recall)
    judged: Mapping[str, Mapping[str, str]] = {}
    if name in named_in_where(definition):
        judged = {other: definition.columns_of(other) for other in named_in_where(definition)}
    used = tables_used(recall.sql, {*tables.streams, *tables.relations, *tables.derived})
    derived = {one: tables.derived[one] for one in tables.derived} if used & tables.derived.keys() else {}
    streams = tables.streams if derived else {one: tables.streams[one] for one in used & tables.streams.keys()}
    return SqlQuestion(
        range=None if recall.range is None else span(recall.range),
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
        types=definition.merged.get(name, {}),
    )


def _seconds(length: timedelta | None) -> float | None:
    return None if length is None else length.total_seconds()
