"""Contexts of events: the queries of several rules, by DuckDB or as one statement of Spark."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import Any, Protocol
from uuid import UUID

import pyarrow as pa
import structlog
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from archiver.time_range import TimeRange
from archiver.times import Micros
from moirae.evaluation.contexts.event_contexts import EventContexts, parse_contexts
from moirae.evaluation.contexts.local import LocalContexts
from moirae.evaluation.contexts.queries import (
    ContextQueries,
    LiftedContextQuery,
    answer_view,
    rows_view,
)
from moirae.evaluation.contexts.shared_queries import (
    SharedQuery,
    TextsByEvent,
    find_allowed_values,
)
from moirae.evaluation.contexts.spark_expressions import ExpressionContexts
from moirae.evaluation.guard import Guard
from moirae.evaluation.plan import ActiveRule
from moirae.rules import Definition
from recall.engines import RowFilters
from recall.engines.isolation import run_isolated, split_in_halves, split_into_items
from recall.engines.pending_events import (
    PendingEvent,
    create_event_table,
    create_pending_frame,
)
from recall.engines.routing import EngineChoice
from recall.errors import SparkRequired, StatementTimeout
from recall.query import sql_names
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
_RuleEvents = tuple[ActiveRule, Sequence[RecallEvent]]
_LocalContexts = LocalContexts | ExpressionContexts


class StreamRows(Protocol):
    """On-time rows of the archive near events."""

    def columns(self, stream: str) -> Mapping[str, str]:
        """The declared columns of a stream, with their types."""

    def read_near(
        self,
        stream: str,
        time_ranges: Sequence[TimeRange],
        allowed_values: Mapping[str, Sequence[Any]],
    ) -> pa.Table | None:
        """As `rows_near`, in memory; None: too many for this process."""

    def rows_near(
        self,
        stream: str,
        time_ranges: Sequence[TimeRange],
        allowed_values: Mapping[str, Sequence[Any]],
    ) -> DataFrame:
        """Rows with event times in any of some ranges.

        Rows with other than the allowed values of a column are left out.
        """


class ContextEvaluator:
    """Computes contexts, in this process or by Spark.

    Relations have views `relation_<name>` in the Spark session.
    """

    def __init__(
        self,
        spark: SparkSession,
        rows: StreamRows,
        guard: Guard | None = None,
        choice: EngineChoice | None = None,
    ) -> None:
        """`guard`: sets time limits, in a process that other rules wait for."""
        self._spark = spark
        self._guard = guard
        self._rows = rows
        self._local: Sequence[_LocalContexts] = ()
        if (choice or EngineChoice()).allows_duckdb:
            portable = LocalContexts()
            filters = RowFilters(lambda: spark)
            self._local = portable, ExpressionContexts(filters, portable.joins, guard)
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
        query = partial(self._query, answers)
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
        return parse_contexts(self.queries_of(rule), rows)

    def _query(self, answers: RecallAnswers, group: Sequence[_RuleEvents]) -> TextsByEvent:
        """The rows of all contexts as JSON texts.

        Equal queries of several rules run once, for the events of all of them.
        """
        shared_queries: dict[Hashable, SharedQuery] = {}
        for rule, events in group:
            for query in self.queries_of(rule):
                shared = shared_queries.setdefault(query.sharing_key, SharedQuery(query))
                shared.add(rule, query, events)
        texts: TextsByEvent = {}
        computed: list[SharedQuery] = []
        for shared in shared_queries.values():
            if shared.query.context_query.is_labels:
                shared.add_labels(texts)
            else:
                computed.append(shared)
        remaining = self._query_locally(computed, texts)
        if remaining:
            self._query_with_spark(remaining, answers, texts)
        return texts

    def _query_locally(
        self, shared_queries: Iterable[SharedQuery], texts: TextsByEvent
    ) -> list[SharedQuery]:
        """Run queries over rows in memory, if they are portable or filters; add to `texts`.

        Returns the remaining queries.
        """
        remaining: list[SharedQuery] = []
        readers_by_stream: dict[str, list[tuple[_LocalContexts, SharedQuery]]] = {}
        for shared in shared_queries:
            streams = sorted(shared.query.streams)
            contexts = self._find_local(shared, streams[0]) if len(streams) == 1 else None
            if contexts is None:
                remaining.append(shared)
            else:
                readers_by_stream.setdefault(streams[0], []).append((contexts, shared))
        for stream, readers in readers_by_stream.items():
            needed = self._find_needed_rows(stream, [shared for _, shared in readers])
            rows = self._rows.read_near(stream, *needed)
            columns = self._rows.columns(stream)
            for contexts, shared in readers:
                try:
                    result = None if rows is None else contexts.run(shared, columns, rows)
                except SparkRequired:  # Spark may succeed, and reports the error otherwise
                    result = None
                if result is None:
                    remaining.append(shared)
                    continue
                for eid, text in result:
                    shared.add_text(texts, eid, text)
        return remaining

    def _find_local(self, shared: SharedQuery, stream: str) -> _LocalContexts | None:
        columns = self._rows.columns(stream) if self._local else {}
        return next((way for way in self._local if way.supports(shared.query, columns)), None)

    def _find_needed_rows(
        self, stream: str, readers: Sequence[SharedQuery]
    ) -> tuple[list[TimeRange], dict[str, list[str]]]:
        """The ranges of event time and the values of columns of the rows that queries may read."""
        time_ranges: list[TimeRange] = []
        for reader in readers:
            time_ranges += reader.time_ranges()
        return time_ranges, find_allowed_values(stream, self._rows.columns(stream), readers)

    def _query_with_spark(
        self, shared_queries: Sequence[SharedQuery], answers: RecallAnswers, texts: TextsByEvent
    ) -> None:
        """Run queries as one statement, within the time limit of their rules; add to `texts`."""
        run = partial(self._run_statement, shared_queries, answers)
        rules = dict.fromkeys(rule for shared in shared_queries for rule in shared.rules)
        table = run() if self._guard is None else self._guard.run(list(rules), 0, run)
        for number, eid, row in zip(
            table["query"].to_pylist(),
            table["_eid"].to_pylist(),
            table["row"].to_pylist(),
            strict=True,
        ):
            shared_queries[number].add_text(texts, eid, row)

    def _run_statement(
        self, shared_queries: Sequence[SharedQuery], answers: RecallAnswers
    ) -> pa.Table:
        """The rows of queries: the position of the query, the event's ID, the row as JSON."""
        frames: dict[Hashable, DataFrame] = {}
        branches: list[str] = []
        for number, shared in enumerate(shared_queries):
            if shared.events_key not in frames:
                frames[shared.events_key] = self._create_event_frame(shared)
            _create_pending_view(frames[shared.events_key], shared.query)
            self._create_answer_views(shared, answers)
            branches.append(_build_context_branch(number, shared.query))
        self._create_stream_views(shared_queries)
        return self._spark.sql(" UNION ALL ".join(branches)).toArrow()

    def _create_event_frame(self, shared: SharedQuery) -> DataFrame:
        """The table of the events of a query; the times of their contexts are added later."""
        pending: list[PendingEvent] = []
        for event in shared.events.values():
            pending.append(PendingEvent(event, TimeRange(event.ts, event.ts)))
        return create_pending_frame(self._spark, pending, shared.types)

    def _create_answer_views(self, shared: SharedQuery, answers: RecallAnswers) -> None:
        """Create a view of the answers of each recall that a query reads."""
        query = shared.query
        for name, columns in query.answer_columns.items():
            rows_by_event: dict[str, Sequence[Mapping[str, Any]]] = {}
            for eid, event in shared.events.items():
                rule_name, _ = shared.readers[eid][0]  # queries with answers are not shared
                event_answers = answers.get((rule_name, event.eid), {})
                rows_by_event[eid] = event_answers.get(name, ())
            frame = create_event_table(self._spark, rows_by_event, columns)
            frame.createOrReplaceTempView(answer_view(query.pending_view, name))

    def _create_stream_views(self, shared_queries: Sequence[SharedQuery]) -> None:
        """Create a view of each stream with the rows that the queries may read."""
        readers_by_stream: dict[str, list[SharedQuery]] = {}
        for shared in shared_queries:
            for stream in shared.query.streams:
                readers_by_stream.setdefault(stream, []).append(shared)
        for stream, readers in readers_by_stream.items():
            frame = self._rows.rows_near(stream, *self._find_needed_rows(stream, readers))
            frame.createOrReplaceTempView(rows_view(stream))


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
    """The rows of a context as JSON, with the number of the query."""
    return f"SELECT {number} AS query, _eid, {query.json_row_sql} AS row FROM ({query.lifted.sql})"


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
