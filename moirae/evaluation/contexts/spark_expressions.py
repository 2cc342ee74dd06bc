"""Context queries over few rows by Spark's expressions, without a statement.

A statement takes tenths of a second, and more while others run; until then, no event is detected
and nobody is told of one. Which rows belong to which event is found by DuckDB; what the query
computes of a row, and whether it has the row at all, by the expressions that a statement would
evaluate: functions and casts to text are Spark's own.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import count

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from sqlglot import exp

from moirae.evaluation.contexts.local import create_event_table
from moirae.evaluation.contexts.queries import LiftedContextQuery, rows_view
from moirae.evaluation.contexts.shared_queries import SharedQuery
from moirae.evaluation.limited_joins import LimitedJoins
from moirae.evaluation.spark_filters import FilterLimits
from recall.engines import FilterResult, LruCache, RowFilters
from recall.engines.pending_events import PLAIN_TYPES
from recall.errors import SparkRequired
from recall.query import clauses_of, sql_names
from recall.query.plain import to_duckdb_sql
from recall.statements import Statement

_PAIRS = "context_pairs"  # the table of rows with their events
# Views of pairs: evaluators of other threads may use the same session.
_VIEWS = map("context_pairs_{}".format, count())
_CONDITION = "_is_in_context"
_CLAUSES = frozenset(("kind", "expressions", "from_", "where"))
_ROW_LIMIT = 10.0  # seconds of processor time for a row, without limits of rules
_MAX_FILTERS = 1_000  # that are kept compiled


@dataclass(frozen=True)
class PairedQuery:
    """A context query in two steps.

    `pairs_sql`: DuckDB's query for the rows with their events. `filter_query`: the values of a pair
    and whether the context has it. The output of `filter_sql` is NULL, or a struct of a number, the
    event's number and the row.
    """

    pairs_sql: str
    filter_query: exp.Expr
    json_row_sql: str

    def filter_sql(self, view: str) -> str:
        """Spark's query over a view of pairs."""
        table = exp.to_identifier(view)
        rows = self.filter_query.copy()
        rows.args["from_"].this.set("this", table)
        return (
            f"SELECT IF({_CONDITION}, named_struct('n', 0, 'event', {sql_names.EID}, "
            f"'row', {self.json_row_sql}), NULL) AS filter FROM ({rows.sql(dialect='spark')})"
        )


class ExpressionContexts:
    """Runs context queries that filter and project the rows of one stream. Used by one thread."""

    def __init__(
        self, filters: RowFilters, joins: LimitedJoins, limits: FilterLimits | None = None
    ) -> None:
        """`limits`: None in a process that no rule waits for."""
        self._filters = filters
        self._limits = limits
        self._joins = joins
        self._view = next(_VIEWS)
        self._queries: LruCache[Hashable, PairedQuery | None] = LruCache()
        self._numbers: dict[Hashable, int | None] = {}
        """Of compiled filters, by query and columns; None: Spark needs a statement."""

    def supports(self, query: LiftedContextQuery, columns: Mapping[str, str]) -> bool:
        """Whether a query may be evaluated so; `columns`: of its stream, with their types."""
        return self._find(query, columns) is not None

    def run(
        self, shared: SharedQuery, columns: Mapping[str, str], rows: pa.Table
    ) -> list[tuple[str, str]]:
        """The rows of a context as JSON texts, each with its event's ID.

        `rows`: of its stream, near its events. Raises `SparkRequired`.
        """
        paired = self._find(shared.query, columns)
        if paired is None:
            raise SparkRequired("query that is more than a filter of rows")
        pairs, eids = self._pair(shared, paired, rows)
        evaluate = partial(self._evaluate, shared, paired, pairs)
        try:
            if self._limits is None:
                results = evaluate(_ROW_LIMIT)
            else:
                results = self._limits.run_filters(shared.rules, len(pairs), evaluate)
        except Py4JJavaError as error:
            raise SparkRequired(str(error)) from error
        (result,) = results
        if result is None or result.lost or result.failed is not None:
            raise SparkRequired("row for which the query fails")  # a statement reports it
        return [(eids[event.ts], event.attributes) for event in result.events]

    def _find(self, query: LiftedContextQuery, columns: Mapping[str, str]) -> PairedQuery | None:
        key = query.sharing_key, query.pending_view, tuple(columns.items())
        return self._queries.get_or_create(key, lambda: pair_query(query, columns))

    def _pair(
        self, shared: SharedQuery, paired: PairedQuery, rows: pa.Table
    ) -> tuple[pa.Table, list[str]]:
        """Rows with their events, and the IDs of these: the pairs have their positions."""
        query = shared.query
        (stream,) = query.streams
        events = create_event_table(shared)
        pairs = self._joins.run(
            ("pairs", query.sharing_key),
            shared.rule_names,
            Statement(paired.pairs_sql, {query.pending_view: events, rows_view(stream): rows}),
            len(rows) + len(shared.events),
        )
        for name in rows.column_names:
            if pairs.schema.field(name).type != rows.schema.field(name).type:
                raise SparkRequired(f"column {name} of type {rows.schema.field(name).type}")
        eids: list[str] = events[sql_names.EID].to_pylist()
        position = pairs.column_names.index(sql_names.EID)
        numbers = pc.index_in(pairs[sql_names.EID], pa.array(eids)).cast(pa.int64())
        return pairs.set_column(position, sql_names.EID, numbers), eids

    def _evaluate(
        self, shared: SharedQuery, paired: PairedQuery, pairs: pa.Table, row_limit: float
    ) -> list[FilterResult | None]:
        number = self._compile(shared.query.sharing_key, paired, pairs.schema)
        if number is None:
            raise SparkRequired("query that is more than a filter of rows")
        return self._filters.evaluate(pairs, [number], row_limit, row_limit)

    def _compile(self, sharing_key: Hashable, paired: PairedQuery, schema: pa.Schema) -> int | None:
        key = sharing_key, schema.to_string()
        if key not in self._numbers:
            if len(self._numbers) >= _MAX_FILTERS:
                numbers = [number for number in self._numbers.values() if number is not None]
                self._filters.remove(numbers)
                self._numbers.clear()
            (number,) = self._filters.compile(self._view, schema, [paired.filter_sql(self._view)])
            self._numbers[key] = number
        return self._numbers[key]


def pair_query(query: LiftedContextQuery, columns: Mapping[str, str]) -> PairedQuery | None:
    """A query in two steps; None: it does more than to filter and project rows of one stream."""
    inputs = query.lifted.inputs
    if inputs.derived or inputs.relations or inputs.event_tables or len(inputs.streams) != 1:
        return None
    lifted = query.lifted.query
    if not isinstance(lifted.args["from_"].this, exp.Subquery):
        return None
    select = lifted.args["from_"].this.this.copy()
    if not isinstance(select, exp.Select) or clauses_of(select) - _CLAUSES:
        return None
    source = select.args["from_"].this
    if not isinstance(source, exp.Subquery) or not isinstance(source.this, exp.Select):
        return None
    pairs: exp.Select = source.this.copy()
    if len(pairs.args.get("joins") or ()) != 1:
        return None  # a query of the query, not the rows with their events
    carried = {output.alias_or_name for output in pairs.expressions} - {"*"}
    outputs = [output for output in select.expressions if output.alias_or_name not in carried]
    where = select.args.get("where")
    condition = exp.true() if where is None else where.this
    values = [output for output in outputs if not output.is_star]
    if any(node.find(exp.Query) for node in (*values, condition)):
        return None  # a subquery, which reads other rows
    used = {
        column.name
        for node in (*values, condition)
        for column in node.find_all(exp.Column)
        if column.name in carried
    }
    nested = {
        sql_names.attribute_column(name)
        for name, type_name in query.types.items()
        if type_name not in PLAIN_TYPES
    }
    if used & nested:
        return None
    pair_columns = used | {sql_names.EID} if len(values) == len(outputs) else carried
    pairs.set(
        "expressions",
        [output for output in pairs.expressions if output.alias_or_name in pair_columns | {"*"}],
    )
    _filter_by_attributes(pairs, query, columns)
    alias = source.alias_or_name
    eid = exp.column(sql_names.EID, table=alias, quoted=True).as_(sql_names.EID)
    select.set("expressions", [*outputs, eid, condition.copy().as_(_CONDITION)])
    select.set("where", None)
    select.set("from_", exp.From(this=exp.to_table(_PAIRS).as_(alias)))
    return PairedQuery(to_duckdb_sql(pairs), select, query.json_row_sql)


def _filter_by_attributes(
    pairs: exp.Select, query: LiftedContextQuery, columns: Mapping[str, str]
) -> None:
    """Leave out pairs whose text columns differ from attributes to which the query has them equal."""
    (join,) = pairs.args["joins"]
    row, event = pairs.args["from_"].alias_or_name, join.alias_or_name
    for _, column, attribute in query.lifted.inputs.attribute_filters:
        if columns.get(column) == query.types.get(attribute) == "string":
            is_equal = exp.EQ(
                this=exp.column(column, table=row, quoted=True),
                expression=exp.column(
                    sql_names.attribute_column(attribute), table=event, quoted=True
                ),
            )
            join.set("on", exp.and_(join.args["on"], is_equal, copy=False))
