"""Contexts and surroundings computed: the queries of some rules about some events, as one Spark
statement.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Protocol
from uuid import UUID

import orjson
import pyarrow as pa
import structlog
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlglot import exp

from moirae.errors import StatementTimeout
from moirae.evaluation.guard import Guard
from moirae.evaluation.limits import CONTEXT_ROWS
from moirae.evaluation.plan import ActiveRule
from moirae.rules import ContextQuery, Definition, build_context_queries, lift_context_query
from recall.engines import JSON_OPTIONS, PendingEvent, create_pending_frame
from recall.query import LiftedQuery, PhysicalTables, TableBindings, sql_names
from recall.requests import RecallEvent

_LOG = structlog.get_logger()


class StreamRows(Protocol):
    """On-time rows of the archive, near some events."""

    def columns(self, stream: str) -> Mapping[str, str]:
        """The declared columns of a stream, with their types."""

    def rows_near(
        self,
        stream: str,
        time_ranges: Sequence[tuple[int, int]],
        allowed_values: Mapping[str, Sequence[Any]],
    ) -> DataFrame:
        """Rows with event times in any of some spans [low, high), microseconds, and values that are
        wanted.
        """


@dataclass(frozen=True)
class LiftedContextQuery:
    """A context query of a rule, rewritten for many events."""

    context_query: ContextQuery
    lifted: LiftedQuery
    pending_view: str
    columns: tuple[str, ...]
    types: Mapping[str, str]
    """Of the event's attributes."""

    def time_ranges(self, events: Sequence[RecallEvent]) -> list[tuple[int, int]]:
        """The event time that must be looked at for each event, in microseconds."""
        used = self.lifted.inputs
        before, after = (
            self.context_query.within + used.reach,
            self.context_query.delay + max(used.lag, 0) + 1,
        )
        return [(event.ts - before, event.ts + after) for event in events]


@dataclass(frozen=True)
class EventContexts:
    """The rows of an event's contexts and surroundings, by name. `cut`: of those that are cut at
    the limit, how many rows there were.
    """

    contexts: Mapping[str, list[dict[str, Any]]]
    surroundings: Mapping[str, list[dict[str, Any]]]
    cut: Mapping[str, int] = field(default_factory=dict)


def prepare_context_query(
    rule: ActiveRule, context_query: ContextQuery, view: str
) -> LiftedContextQuery:
    """A context query for the events in a view."""
    tables = {name: f"around_{name}" for name in rule.tables.streams}
    tables |= {name: f"relation_{name}" for name in rule.tables.relations}
    names = TableBindings(PhysicalTables(tables), PhysicalTables(tables), view)
    query = lift_context_query(context_query, rule.definition, rule.tables, names)
    return LiftedContextQuery(
        context_query,
        query,
        view,
        tuple(rule.definition.result_columns[context_query.name]),
        rule.definition.types,
    )


def settle_delay(context_queries: Sequence[LiftedContextQuery]) -> int:
    """How far beyond an event (microseconds) time must go until its context can be settled."""
    return max(
        (a.context_query.delay + max(a.lifted.inputs.lag, 0) for a in context_queries), default=0
    )


def context_horizon(
    rule: ActiveRule,
    context_queries: Sequence[LiftedContextQuery],
    watermarks: Mapping[str, int | None],
) -> int | None:
    """Contexts of events before this time can be settled; None: there are none, or not yet."""
    streams = rule.shape.streams.union(
        *(a.lifted.inputs.streams | a.lifted.inputs.derived for a in context_queries)
    )
    marks = [watermarks.get(stream) for stream in streams]
    known = [mark for mark in marks if mark is not None]
    return (
        min(known) - settle_delay(context_queries)
        if context_queries and len(known) == len(marks)
        else None
    )


class ContextEvaluator:
    """Computes contexts on a Spark session where relations have views `relation_<name>`."""

    def __init__(self, spark: SparkSession, rows: StreamRows, guard: Guard | None = None) -> None:
        """`guard`: sets limits, where others would be held up."""
        self._spark = spark
        self._guard = guard
        self._rows = rows
        self._queries_by_rule: dict[str, tuple[Definition, list[LiftedContextQuery]]] = {}
        self._view_numbers = count()

    def settle_delay(self, rule: ActiveRule) -> int:
        """How far beyond an event (microseconds) time must go until its context can be settled."""
        return settle_delay(self.queries_of(rule))

    def context_horizon(self, rule: ActiveRule, watermarks: Mapping[str, int | None]) -> int | None:
        """Contexts of events before this time can be settled; None: there are none, or not yet."""
        return context_horizon(rule, self.queries_of(rule), watermarks)

    def queries_of(self, rule: ActiveRule) -> list[LiftedContextQuery]:
        """The context queries of a rule, rewritten."""
        known = self._queries_by_rule.get(rule.name)
        if known is None or known[0] is not rule.definition:
            made = [
                prepare_context_query(rule, ask, f"pending_{next(self._view_numbers)}")
                for ask in build_context_queries(rule.definition)
            ]
            known = self._queries_by_rule[rule.name] = rule.definition, made
        return known[1]

    def compute(
        self, events_by_rule: Sequence[tuple[ActiveRule, Sequence[RecallEvent]]]
    ) -> dict[tuple[str, UUID], EventContexts]:
        """All contexts of some events of some rules; none, but a word in the log, for an event
        whose query fails.
        """
        together = (
            [events_by_rule]
            if self._guard is None
            else self._guard.isolate_suspects(events_by_rule, lambda one: one[0].name)
        )
        return {key: found for group in together for key, found in self._compute(group).items()}

    def _compute(
        self, wanted: Sequence[tuple[ActiveRule, Sequence[RecallEvent]]]
    ) -> dict[tuple[str, UUID], EventContexts]:
        try:
            rows = self._query_with_limit(wanted)
        except (
            PySparkException,
            Py4JJavaError,
            StatementTimeout,
            pa.ArrowException,
            LookupError,
            ValueError,
        ) as error:
            slow = isinstance(error, StatementTimeout)
            parts = (
                [[one] for one in wanted]
                if len(wanted) > 1
                else []
                if slow
                else _halves(*wanted[0])
            )
            if len(parts) > 1:
                return {key: found for part in parts for key, found in self._compute(part).items()}
            if slow and self._guard is not None:
                self._guard.record_failure(wanted[0][0], error)
            message = str(error).strip().splitlines()[0]
            _LOG.error(
                "context failed", action="context_failed", rule=wanted[0][0].name, error=message
            )
            return {}
        return {
            (rule.name, event.eid): self.parse_contexts(
                rule, rows.get((rule.name, str(event.eid)), {})
            )
            for rule, events in wanted
            for event in events
        }

    def parse_contexts(self, rule: ActiveRule, rows: Mapping[str, list[str]]) -> EventContexts:
        """An event's rows as JSON texts, by context; equal rows in whatever order are the same
        context.
        """
        parts: dict[bool, dict[str, list[dict[str, Any]]]] = {True: {}, False: {}}
        cut: dict[str, int] = {}
        for asking in self.queries_of(rule):
            name = asking.context_query.name
            # Sorted as text: the same rows are the same context.
            texts = sorted(rows.get(name, ()))
            if len(texts) > CONTEXT_ROWS:
                cut[name] = len(texts)
            parts[asking.context_query.is_compared][name] = [
                orjson.loads(text) for text in texts[:CONTEXT_ROWS]
            ]
        return EventContexts(parts[True], parts[False], cut)

    def _query_with_limit(
        self, wanted: Sequence[tuple[ActiveRule, Sequence[RecallEvent]]]
    ) -> dict[tuple[str, str], dict[str, list[str]]]:
        if self._guard is None:
            return self._query(wanted)
        return self._guard.run([rule for rule, _ in wanted], 0, lambda: self._query(wanted))

    def _query(
        self, wanted: Sequence[tuple[ActiveRule, Sequence[RecallEvent]]]
    ) -> dict[tuple[str, str], dict[str, list[str]]]:
        branches: list[str] = []
        askings: list[tuple[LiftedContextQuery, Sequence[RecallEvent]]] = []
        for number, (rule, events) in enumerate(wanted):
            frame = create_pending_frame(
                self._spark, [PendingEvent(e, e.ts, e.ts) for e in events], rule.definition.types
            )
            for asking in self.queries_of(rule):
                within, delay = (
                    asking.context_query.within / 1e6,
                    (asking.context_query.delay + 1) / 1e6,
                )
                bounds = {
                    sql_names.LOW: F.expr(f"{sql_names.EVENT_TS} - INTERVAL '{within:.6f}' SECOND"),
                    sql_names.HIGH: F.expr(f"{sql_names.EVENT_TS} + INTERVAL '{delay:.6f}' SECOND"),
                }
                frame.withColumns(bounds).createOrReplaceTempView(asking.pending_view)
                branches.append(_build_context_branch(number, asking))
                askings.append((asking, events))
        self._create_stream_views(askings)
        found: dict[tuple[str, str], dict[str, list[str]]] = {}
        table = self._spark.sql(" UNION ALL ".join(branches)).toArrow()
        columns = (table[name].to_pylist() for name in ("rule", "name", "_eid", "row"))
        for number, name, eid, row in zip(*columns, strict=True):
            found.setdefault((wanted[number][0].name, eid), {}).setdefault(name, []).append(row)
        return found

    def _create_stream_views(
        self, askings: Sequence[tuple[LiftedContextQuery, Sequence[RecallEvent]]]
    ) -> None:
        """Views of what the queries look at, and no more."""
        for stream in frozenset().union(
            *(a.lifted.inputs.streams | a.lifted.inputs.derived for a, _ in askings)
        ):
            readers = [
                (a, e)
                for a, e in askings
                if stream in a.lifted.inputs.streams | a.lifted.inputs.derived
            ]
            spans = [span for asking, events in readers for span in asking.time_ranges(events)]
            only = _allowed_values(stream, self._rows.columns(stream), readers)
            self._rows.rows_near(stream, spans, only).createOrReplaceTempView(f"around_{stream}")


def _allowed_values(
    stream: str,
    columns: Mapping[str, str],
    readers: Sequence[tuple[LiftedContextQuery, Sequence[RecallEvent]]],
) -> dict[str, list[str]]:
    """Values of text columns to which all readers of a stream keep."""
    only: dict[str, set[str]] | None = None
    for asking, events in readers:
        mine: dict[str, set[str]] = {}
        for name, column, attribute in (
            asking.lifted.inputs.attribute_filters
            if stream not in asking.lifted.inputs.derived
            else ()
        ):
            if name == stream and columns.get(column) == asking.types.get(attribute) == "string":
                values = (event.attributes.get(attribute) for event in events)
                mine[column] = {value for value in values if isinstance(value, str)}
        only = mine if only is None else {c: only[c] | mine[c] for c in only.keys() & mine.keys()}
    return {column: sorted(values) for column, values in (only or {}).items()}


def _build_context_branch(number: int, asking: LiftedContextQuery) -> str:
    """The rows of one context as JSON. Values that are compared are texts, as Spark casts them."""
    cast = "CAST({0} AS STRING)" if asking.context_query.is_compared else "{0}"
    names = [
        (exp.Literal.string(n).sql("spark"), exp.to_identifier(n, quoted=True).sql("spark"))
        for n in asking.columns
    ]
    values = ", ".join(f"{text}, {cast.format(name)}" for text, name in names)
    options = f"map('ignoreNullFields', 'false', 'timestampFormat', \"{JSON_OPTIONS['timestampFormat']}\")"
    return (
        f"SELECT {number} AS rule, '{asking.context_query.name}' AS name, _eid, "
        f"to_json(named_struct({values}), {options}) AS row FROM ({asking.lifted.sql})"
    )


def _halves(
    rule: ActiveRule, events: Sequence[RecallEvent]
) -> list[list[tuple[ActiveRule, Sequence[RecallEvent]]]]:
    middle = len(events) // 2
    return [[(rule, part)] for part in (events[:middle], events[middle:]) if part]
