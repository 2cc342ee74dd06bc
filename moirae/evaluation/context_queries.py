"""Contexts and surroundings of events: the queries of several rules as one Spark statement."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import count, repeat
from types import MappingProxyType
from typing import Any, ClassVar, Protocol
from uuid import UUID

import orjson
import pyarrow as pa
import structlog
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlglot import exp

from archiver.time_range import TimeRange
from archiver.times import Micros
from moirae.evaluation.guard import Guard
from moirae.evaluation.plan import ActiveRule, relation_view
from moirae.rules import Definition
from moirae.rules.requests import ContextQuery, build_context_queries, lift_context_query
from recall.engines.isolation import run_isolated, split_in_halves, split_into_items
from recall.engines.pending_events import (
    JSON_OPTIONS,
    PendingEvent,
    create_event_table,
    create_pending_frame,
)
from recall.errors import StatementTimeout
from recall.query import PhysicalTables, sql_names
from recall.query.lift import LiftedQuery, TableBindings
from recall.requests import RecallEvent

_LOG = structlog.get_logger()

_QUERY_ERRORS = (
    PySparkException,
    Py4JJavaError,
    StatementTimeout,
    pa.ArrowException,
    LookupError,
    ValueError,
)

# The rows of the recalls that contexts read: by rule name and event ID, then by recall.
RecallAnswers = Mapping[tuple[str, UUID], Mapping[str, Sequence[Mapping[str, Any]]]]
_Events = Sequence[RecallEvent]
_RuleEvents = tuple[ActiveRule, _Events]
_TextsByName = dict[str, list[str]]  # rows as JSON, by name of the context


class StreamRows(Protocol):
    """On-time rows of the archive near events."""

    def columns(self, stream: str) -> Mapping[str, str]:
        """The declared columns of a stream, with their types."""

    def rows_near(
        self,
        stream: str,
        time_ranges: Sequence[TimeRange],
        allowed_values: Mapping[str, Sequence[Any]],
    ) -> DataFrame:
        """Rows with event times in any of some ranges.

        Rows with other than the allowed values of a column are left out.
        """


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
    def streams(self) -> frozenset[str]:
        """The streams that the query reads, derived ones included."""
        return self.lifted.inputs.streams | self.lifted.inputs.derived

    @property
    def settle_delay(self) -> Micros:
        """Microseconds after an event until all rows of its context are there."""
        return self.context_query.delay + max(self.lifted.inputs.lag, 0)

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
            tables[stream] = f"around_{stream}"
        for relation in rule.tables.relations:
            tables[relation] = relation_view(relation)
        definition = rule.definition
        queries: list[LiftedContextQuery] = []
        for context_query, pending_view in zip(
            build_context_queries(definition), pending_views, strict=False
        ):
            answers = {name: _answer_view(pending_view, name) for name in context_query.recalls}
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

        None: the rule has no contexts, or a stream has no watermark yet.
        """
        if not self.queries:
            return None
        # Events over streams of recalls are settled when these have ended; contexts do not read them.
        streams = set(self.rule.shape.streams & self.rule.tables.streams.keys())
        for query in self.queries:
            streams |= query.streams
        if not streams:
            streams = {name for name, mark in watermarks.items() if mark is not None}
        stream_watermarks: list[Micros] = []
        for stream in streams:
            watermark = watermarks.get(stream)
            if watermark is None:
                return None
            stream_watermarks.append(watermark)
        if not stream_watermarks:
            return None
        return min(stream_watermarks) - self.settle_delay


@dataclass(frozen=True)
class EventContexts:
    """The rows of an event's contexts and surroundings, by name.

    `truncated`: for each context with more than `MAX_ROWS` rows, how many it had.
    """

    MAX_ROWS: ClassVar[int] = 2_000
    """Rows of one context of one event. The first in the order of their JSON text are kept."""

    contexts: Mapping[str, list[dict[str, Any]]]
    surroundings: Mapping[str, list[dict[str, Any]]]
    truncated: Mapping[str, int] = field(default_factory=dict)


class ContextEvaluator:
    """Computes contexts on a Spark session where relations have views `relation_<name>`."""

    def __init__(self, spark: SparkSession, rows: StreamRows, guard: Guard | None = None) -> None:
        """`guard`: sets time limits, in a process that other rules wait for."""
        self._spark = spark
        self._guard = guard
        self._rows = rows
        self._queries_by_rule: dict[str, tuple[Definition, ContextQueries]] = {}
        self._view_names = map("pending_{}".format, count())

    def settle_delay(self, rule: ActiveRule) -> Micros:
        """Microseconds after an event until its contexts can be settled."""
        return self._lift(rule).settle_delay

    def context_horizon(
        self, rule: ActiveRule, watermarks: Mapping[str, Micros | None]
    ) -> Micros | None:
        """The event time (microseconds) before which contexts of events can be settled.

        None: the rule has no contexts, or a stream has no watermark yet.
        """
        return self._lift(rule).horizon(watermarks)

    def recalls_of(self, rule: ActiveRule) -> frozenset[str]:
        """The recalls whose answers the contexts of a rule read."""
        return self._lift(rule).recalls

    def queries_of(self, rule: ActiveRule) -> Sequence[LiftedContextQuery]:
        """The rewritten context queries of a rule."""
        return self._lift(rule).queries

    def _lift(self, rule: ActiveRule) -> ContextQueries:
        definition, queries = self._queries_by_rule.get(rule.name, (None, None))
        if queries is None or definition is not rule.definition:
            queries = ContextQueries.lift(rule, self._view_names)
            self._queries_by_rule[rule.name] = rule.definition, queries
        return queries

    def compute(
        self,
        events_by_rule: Sequence[tuple[ActiveRule, Sequence[RecallEvent]]],
        answers: RecallAnswers = MappingProxyType({}),
    ) -> dict[tuple[str, UUID], EventContexts]:
        """The contexts of events, by rule name and event ID.

        `answers`: of the recalls that the contexts read; others have no rows. Events whose query
        fails are logged and left out.
        """
        groups: Sequence[Sequence[_RuleEvents]] = [events_by_rule]
        if self._guard is not None:
            groups = self._guard.isolate_suspects(events_by_rule, lambda pair: pair[0].name)
        contexts: dict[tuple[str, UUID], EventContexts] = {}
        for group in groups:
            contexts |= self._compute_group(group, answers)
        return contexts

    def _compute_group(
        self, group: Sequence[_RuleEvents], answers: RecallAnswers
    ) -> dict[tuple[str, UUID], EventContexts]:
        """As `compute`; if the statement fails, its parts are computed one by one."""
        contexts: dict[tuple[str, UUID], EventContexts] = {}
        query = partial(self._query_with_limit, answers)
        for part, outcome in run_isolated(group, query, _QUERY_ERRORS, _split):
            if isinstance(outcome, Exception):
                self._report_failure(part[0][0], outcome)
                continue
            for rule, events in part:
                for event in events:
                    texts = outcome.get((rule.name, str(event.eid)), {})
                    contexts[rule.name, event.eid] = self.parse_contexts(rule, texts)
        return contexts

    def _report_failure(self, rule: ActiveRule, error: Exception) -> None:
        if isinstance(error, StatementTimeout) and self._guard is not None:
            self._guard.record_failure(rule, error)
        message = str(error).strip().splitlines()[0]
        _LOG.error("context failed", action="context_failed", rule=rule.name, error=message)

    def parse_contexts(self, rule: ActiveRule, rows: Mapping[str, Sequence[str]]) -> EventContexts:
        """The contexts of an event. `rows`: as JSON texts in any order, by name of the context."""
        contexts: dict[str, list[dict[str, Any]]] = {}
        surroundings: dict[str, list[dict[str, Any]]] = {}
        truncated: dict[str, int] = {}
        for query in self.queries_of(rule):
            name = query.context_query.name
            # The same rows are the same context, in whatever order Spark returns them.
            texts = sorted(rows.get(name, ()))
            if len(texts) > EventContexts.MAX_ROWS:
                truncated[name] = len(texts)
            values = list(map(orjson.loads, texts[: EventContexts.MAX_ROWS]))
            if query.context_query.is_compared:
                contexts[name] = values
            else:
                surroundings[name] = values
        return EventContexts(contexts, surroundings, truncated)

    def _query_with_limit(
        self, answers: RecallAnswers, group: Sequence[_RuleEvents]
    ) -> dict[tuple[str, str], _TextsByName]:
        if self._guard is None:
            return self._query(group, answers)
        return self._guard.run([rule for rule, _ in group], 0, lambda: self._query(group, answers))

    def _query(
        self, group: Sequence[_RuleEvents], answers: RecallAnswers
    ) -> dict[tuple[str, str], _TextsByName]:
        """The rows of all contexts as JSON texts, by rule name and event ID.

        Equal queries of several rules run once, for the events of all of them.
        """
        shared_queries: dict[Hashable, _SharedQuery] = {}
        queries: list[tuple[LiftedContextQuery, Sequence[RecallEvent]]] = []
        for rule, events in group:
            for query in self.queries_of(rule):
                shared = shared_queries.setdefault(query.sharing_key, _SharedQuery(query))
                shared.add(rule, query, events)
                queries.append((query, events))
                self._create_answer_views(rule, query, events, answers)
        frames: dict[Hashable, DataFrame] = {}
        branches: list[str] = []
        for number, shared in enumerate(shared_queries.values()):
            if shared.frame_key not in frames:
                frames[shared.frame_key] = shared.create_frame(self._spark)
            _create_pending_view(frames[shared.frame_key], shared.query)
            branches.append(_build_context_branch(number, shared.query))
        self._create_stream_views(queries)
        table = self._spark.sql(" UNION ALL ".join(branches)).toArrow()
        readers_by_number = [shared.readers for shared in shared_queries.values()]
        texts_by_event: dict[tuple[str, str], _TextsByName] = {}
        for number, eid, row in zip(
            table["query"].to_pylist(),
            table["_eid"].to_pylist(),
            table["row"].to_pylist(),
            strict=True,
        ):
            for rule_name, name in readers_by_number[number][eid]:
                texts = texts_by_event.setdefault((rule_name, eid), {})
                texts.setdefault(name, []).append(row)
        return texts_by_event

    def _create_answer_views(
        self,
        rule: ActiveRule,
        query: LiftedContextQuery,
        events: Sequence[RecallEvent],
        answers: RecallAnswers,
    ) -> None:
        """Create a view of the answers of each recall that a query reads."""
        for name, columns in query.answer_columns.items():
            rows_by_event: dict[str, Sequence[Mapping[str, Any]]] = {}
            for event in events:
                event_answers = answers.get((rule.name, event.eid), {})
                rows_by_event[str(event.eid)] = event_answers.get(name, ())
            frame = create_event_table(self._spark, rows_by_event, columns)
            frame.createOrReplaceTempView(_answer_view(query.pending_view, name))

    def _create_stream_views(
        self, queries: Sequence[tuple[LiftedContextQuery, Sequence[RecallEvent]]]
    ) -> None:
        """Create a view of each stream with the rows that the queries may read."""
        readers_by_stream: dict[str, list[tuple[LiftedContextQuery, Sequence[RecallEvent]]]] = {}
        for query, events in queries:
            for stream in query.streams:
                readers_by_stream.setdefault(stream, []).append((query, events))
        for stream, readers in readers_by_stream.items():
            time_ranges: list[TimeRange] = []
            for query, events in readers:
                time_ranges += query.time_ranges(events)
            allowed_values = _allowed_values(stream, self._rows.columns(stream), readers)
            frame = self._rows.rows_near(stream, time_ranges, allowed_values)
            frame.createOrReplaceTempView(f"around_{stream}")


@dataclass
class _SharedQuery:
    """A context query, the events of the rules that have it, and what each event's rows are for.

    `types`: the attributes that all of the rules have in common. `readers`: rule name and name of
    the context, by event ID, which is different for events of different rules.
    """

    query: LiftedContextQuery
    types: dict[str, str] = field(init=False)
    events: dict[str, RecallEvent] = field(default_factory=dict)
    readers: dict[str, list[tuple[str, str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.types = dict(self.query.types)

    def add(self, rule: ActiveRule, query: LiftedContextQuery, events: _Events) -> None:
        """Add a rule's equal query for some events."""
        self.types = {
            name: type_name
            for name, type_name in self.types.items()
            if query.types.get(name) == type_name
        }
        for event in events:
            eid = str(event.eid)
            self.events[eid] = event
            self.readers.setdefault(eid, []).append((rule.name, query.context_query.name))

    @property
    def frame_key(self) -> Hashable:
        """Equal for queries whose events have the same table."""
        return frozenset(self.events), frozenset(self.types.items())

    def create_frame(self, spark: SparkSession) -> DataFrame:
        """The table of the events."""
        pending_events: list[PendingEvent] = []
        for event in self.events.values():
            pending_events.append(PendingEvent(event, TimeRange(event.ts, event.ts)))
        return create_pending_frame(spark, pending_events, self.types)


def _answer_view(pending_view: str, recall: str) -> str:
    """The view of the answers of a recall for a query about the events of a pending view."""
    return f"answers_{pending_view}_{recall}"


def _allowed_values(
    stream: str,
    columns: Mapping[str, str],
    readers: Sequence[tuple[LiftedContextQuery, Sequence[RecallEvent]]],
) -> dict[str, list[str]]:
    """The values of the text columns by which all readers of a stream filter, sorted."""
    filters = [_attribute_values(stream, columns, query, events) for query, events in readers]
    shared_columns = set(filters[0]).intersection(*filters)
    allowed_values: dict[str, list[str]] = {}
    for column in shared_columns:
        allowed_values[column] = sorted(set().union(*(values[column] for values in filters)))
    return allowed_values


def _attribute_values(
    stream: str,
    columns: Mapping[str, str],
    query: LiftedContextQuery,
    events: Sequence[RecallEvent],
) -> dict[str, set[str]]:
    """For each text column of a stream that a query compares with an attribute, its values."""
    values_by_column: dict[str, set[str]] = {}
    if stream in query.lifted.inputs.derived:
        return values_by_column
    for filtered_stream, column, attribute in query.lifted.inputs.attribute_filters:
        is_text = columns.get(column) == query.types.get(attribute) == "string"
        if filtered_stream == stream and is_text:
            values = values_by_column[column] = set()
            for event in events:
                value = event.attributes.get(attribute)
                if isinstance(value, str):
                    values.add(value)
    return values_by_column


def _create_pending_view(frame: DataFrame, query: LiftedContextQuery) -> None:
    """Create the view of the events, with the bounds of the time that the context spans."""
    within = query.context_query.within / 1e6
    delay = (query.context_query.delay + 1) / 1e6
    bounds = {
        sql_names.LOW: F.expr(f"{sql_names.EVENT_TS} - INTERVAL '{within:.6f}' SECOND"),
        sql_names.HIGH: F.expr(f"{sql_names.EVENT_TS} + INTERVAL '{delay:.6f}' SECOND"),
    }
    frame.withColumns(bounds).createOrReplaceTempView(query.pending_view)


def _build_context_branch(number: int, query: LiftedContextQuery) -> str:
    """The rows of a context as JSON, with the number of the query.

    Compared values become text, by Spark's casts.
    """
    fields: list[str] = []
    for column in query.columns:
        name = exp.Literal.string(column).sql("spark")
        value = exp.to_identifier(column, quoted=True).sql("spark")
        if query.context_query.is_compared:
            value = f"CAST({value} AS STRING)"
        fields.append(f"{name}, {value}")
    time_format = JSON_OPTIONS["timestampFormat"]
    options = f"map('ignoreNullFields', 'false', 'timestampFormat', \"{time_format}\")"
    return (
        f"SELECT {number} AS query, _eid, "
        f"to_json(named_struct({', '.join(fields)}), {options}) AS row FROM ({query.lifted.sql})"
    )


def _split(group: Sequence[_RuleEvents], error: Exception) -> Sequence[Sequence[_RuleEvents]]:
    """The parts of a failed group: its rules, or halves of the events of its only rule.

    A statement of a single rule that exceeded its time limit is not repeated.
    """
    if len(group) > 1:
        return split_into_items(group)
    if isinstance(error, StatementTimeout):
        return []
    rule, events = group[0]
    return [[(rule, part)] for part in split_in_halves(events, error)]
