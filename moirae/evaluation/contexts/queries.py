"""The context queries of a rule, rewritten for many events at once. No I/O."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat

from sqlglot import exp

from archiver.time_range import TimeRange
from archiver.times import END_OF_TIME, Micros
from moirae.evaluation.plan import ActiveRule, relation_view
from moirae.rules import ALERTS
from moirae.rules.requests import ContextQuery, build_context_queries, lift_context_query
from recall.engines.pending_events import JSON_OPTIONS
from recall.query import PhysicalTables, find_horizon, sql_names
from recall.query.lift import LiftedQuery, TableBindings
from recall.requests import RecallEvent


def rows_view(stream: str) -> str:
    """The view of the rows of a stream near the events."""
    return f"around_{stream}"


def answer_view(pending_view: str, recall: str) -> str:
    """The view of the answers of a recall for a query about the events of a pending view."""
    return f"answers_{pending_view}_{recall}"


@dataclass(frozen=True)
class LiftedContextQuery:
    """A context query of a rule, rewritten for the events in the view `pending_view`.

    `types`: of the event's attributes. `answer_columns`: of the recalls whose answers it reads.
    """

    context_query: ContextQuery
    lifted: LiftedQuery
    pending_view: str
    columns: tuple[str, ...]
    types: Mapping[str, str]
    answer_columns: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @cached_property
    def sharing_key(self) -> Hashable:
        """Equal for queries that return the same rows of the same event, in whichever rule."""
        query = self.lifted.query.copy()
        for table in query.find_all(exp.Table):
            if table.name == self.pending_view:
                table.set("this", exp.to_identifier("pending"))
        columns = {column.name.lower() for column in query.find_all(exp.Column)}
        used_types: list[tuple[str, str]] = []
        for name, type_name in self.types.items():
            if sql_names.attribute_column(name).lower() in columns:
                used_types.append((name, type_name))
        context_query = self.context_query
        return (
            query.sql(dialect="spark"),
            context_query.within,
            context_query.delay,
            context_query.is_compared,
            self.columns,
            frozenset(used_types),
        )

    @property
    def name(self) -> str:
        """The name of the context."""
        return self.context_query.name

    @property
    def streams(self) -> frozenset[str]:
        """The streams that the query reads, derived ones included."""
        return self.lifted.inputs.streams | self.lifted.inputs.derived

    @property
    def settle_delay(self) -> Micros:
        """Microseconds after an event until all rows of its context are there."""
        return self.context_query.delay + max(self.lifted.inputs.lag, 0)

    @cached_property
    def json_row_sql(self) -> str:
        """An expression of Spark: the values of a row as JSON. Compared ones are text, by its casts."""
        fields: list[str] = []
        for column in self.columns:
            name = exp.Literal.string(column).sql("spark")
            value = exp.to_identifier(column, quoted=True).sql("spark")
            if self.context_query.is_compared:
                value = f"CAST({value} AS STRING)"
            fields.append(f"{name}, {value}")
        time_format = JSON_OPTIONS["timestampFormat"]
        options = f"map('ignoreNullFields', 'false', 'timestampFormat', \"{time_format}\")"
        return f"to_json(named_struct({', '.join(fields)}), {options})"

    def span(self, event: RecallEvent) -> TimeRange:
        """The time that the context of an event spans."""
        return TimeRange(
            event.ts - self.context_query.within, event.ts + self.context_query.delay + 1
        )

    def time_ranges(self, events: Sequence[RecallEvent]) -> list[TimeRange]:
        """For each event, the event times of the rows that it needs."""
        before = self.context_query.within + self.lifted.inputs.reach
        after = self.settle_delay + 1
        return [TimeRange(event.ts - before, event.ts + after) for event in events]


@dataclass(frozen=True)
class ContextQueries:
    """The context queries of a rule, rewritten for many events."""

    rule: ActiveRule
    queries: Sequence[LiftedContextQuery]

    @classmethod
    def lift(
        cls, rule: ActiveRule, pending_views: Iterable[str] = repeat("pending")
    ) -> "ContextQueries":
        """Rewrite the queries of a rule. `pending_views`: the view with the events of each."""
        tables: dict[str, str] = {}
        for stream in rule.tables.streams:
            tables[stream] = rows_view(stream)
        tables.setdefault(ALERTS, rows_view(ALERTS))
        for relation in rule.tables.relations:
            tables[relation] = relation_view(relation)
        definition = rule.definition
        queries: list[LiftedContextQuery] = []
        for context_query, pending_view in zip(
            build_context_queries(definition), pending_views, strict=False
        ):
            answers = {name: answer_view(pending_view, name) for name in context_query.recalls}
            bindings = TableBindings(
                PhysicalTables({**tables, **answers}), PhysicalTables(tables), pending_view
            )
            lifted_query = LiftedContextQuery(
                context_query=context_query,
                lifted=lift_context_query(context_query, definition, rule.tables, bindings),
                pending_view=pending_view,
                columns=tuple(definition.result_columns[context_query.name]),
                types=definition.types,
                answer_columns={name: definition.columns_of(name) for name in answers},
            )
            queries.append(lifted_query)
        return cls(rule, queries)

    @property
    def settle_delay(self) -> Micros:
        """Microseconds after an event until its contexts can be settled."""
        return max((query.settle_delay for query in self.queries), default=0)

    @property
    def recalls(self) -> frozenset[str]:
        """The recalls whose answers the contexts read."""
        return frozenset().union(*(query.context_query.recalls for query in self.queries))

    def horizon(self, watermarks: Mapping[str, Micros | None]) -> Micros | None:
        """The event time (microseconds) before which contexts of events can be settled.

        None: the rule has no contexts, or a stream has no watermark yet. The watermark of `alerts`
        is the event time up to which the events of all rules are settled.
        """
        if not self.queries:
            return None
        # Events over streams of recalls are settled when these have ended; contexts do not read them.
        streams = set(self.rule.shape.streams & self.rule.tables.streams.keys())
        if self.rule.definition.is_external:
            streams = set()  # what is posted is complete
        for query in self.queries:
            streams |= query.streams
        horizon: Micros | None = END_OF_TIME
        reads_alerts = ALERTS in streams and ALERTS not in self.rule.tables.streams
        streams -= {ALERTS} if reads_alerts else set()
        if not streams and not self.rule.definition.is_external:
            present = {name for name, mark in watermarks.items() if mark is not None}
            streams = present & self.rule.tables.streams.keys()
        if streams or not self.rule.definition.is_external:
            horizon = find_horizon(streams, watermarks, self.settle_delay)
        if not reads_alerts or horizon is None:
            return horizon
        alerts_mark = watermarks.get(ALERTS)
        # Contexts read the alerts before their event: those at its time need not be settled.
        return None if alerts_mark is None else min(horizon, alerts_mark + 1)
