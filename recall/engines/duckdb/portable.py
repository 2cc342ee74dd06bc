"""The partial queries that are known to give the same results in DuckDB as in Spark. No I/O.

One stream; the expressions of `recall.query.plain` over its columns and the event's attributes;
plain rows of values that are written alike; groups that are not fractions; and the aggregates that
can be split except those that keep lists, unless the lists are only counted. `tests/contract` compares the engines.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from archiver.read import Reader
from recall.engines.duckdb.one_event import OneEventQuery, write_one_event_query
from recall.engines.lru_cache import LruCache
from recall.engines.pending_events import PLAIN_TYPES
from recall.engines.template import Template
from recall.errors import SparkRequired
from recall.query import sql_names
from recall.query.plain import EXACT_TYPES, ExpressionWriter, create_recall_writer, to_duckdb_sql
from recall.query.split import LIST_KINDS

_NUMBER_TYPES = ("int", "bigint", "float", "double")
# Types of values of plain rows. A float has fewer digits in Spark's JSON.
_ROW_TYPES = EXACT_TYPES | {"double"}
_AGGREGATES = (
    exp.Sum,
    exp.Avg,
    exp.VariancePop,
    exp.Variance,
    exp.StddevPop,
    exp.Stddev,
    exp.StddevSamp,
)


@dataclass(frozen=True)
class PortableQuery:
    """A partial query in DuckDB's SQL; each text is generated when first used."""

    template: Template

    @cached_property
    def filtered_sql(self) -> str:
        """The query with a filter of rows by the range of the piece."""
        return to_duckdb_sql(self.template.partial.query)

    @cached_property
    def rows_in_range_sql(self) -> str:
        """The query without that filter, if all rows lie in the piece."""
        return to_duckdb_sql(self.template.partial_rows_in_range.query)

    @cached_property
    def one_event(self) -> OneEventQuery | None:
        """The query about a single event; None: it is read like several."""
        return write_one_event_query(self.template, rows_in_range=False)

    @cached_property
    def one_event_in_range(self) -> OneEventQuery | None:
        """`one_event` if all rows lie in its piece."""
        return write_one_event_query(self.template, rows_in_range=True)


class PortableQueries:
    """The portable queries used last. `reader`: of the streams that they read."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._queries: LruCache[str, PortableQuery | SparkRequired] = LruCache()

    def get(self, template: Template) -> PortableQuery:
        """The query in DuckDB's SQL. Raises `SparkRequired`."""
        result = self._queries.get_or_create(template.query_key, lambda: self._translate(template))
        if isinstance(result, SparkRequired):
            raise result
        return result

    def supports(self, template: Template) -> bool:
        """Whether a query is portable."""
        try:
            self.get(template)
            return True
        except SparkRequired:
            return False

    def stream_of(self, template: Template) -> str:
        """The only stream that a portable query reads."""
        (stream,) = template.partial.inputs.streams
        return stream

    def _translate(self, template: Template) -> PortableQuery | SparkRequired:
        """The query in DuckDB's SQL, or why it needs Spark."""
        columns: Mapping[str, str] = {}
        streams = template.partial.inputs.streams
        if len(streams) == 1:
            columns = self._reader.schema(self.stream_of(template)).query_columns
        try:
            return to_portable(template, columns)
        except SparkRequired as reason:
            return reason


def to_portable(template: Template, columns: Mapping[str, str]) -> PortableQuery:
    """The partial query in DuckDB's SQL; `columns`: of its stream, with their types.

    Raises `SparkRequired` for everything that is not known to be equal.
    """
    split = template.split
    _check_sources(template)
    stream = split.partial.args["from_"].this.alias_or_name
    event_columns = {**template.question.attributes, "ts": "timestamp", "eid": "string"}
    writer = create_recall_writer(
        {stream: columns, sql_names.EVENT: event_columns}, {sql_names.EVENT}
    )
    for output in split.partial.expressions:
        if template.question.norm is not None:
            _check_number_or_time(output.unalias(), writer)
        elif split.selects_rows:
            _check_row_value(output.unalias(), writer)
        else:
            _check_output(output.unalias(), writer)
    for aggregate in split.aggregates:
        if aggregate.kind in LIST_KINDS and aggregate.kind != "count_distinct":
            raise SparkRequired("aggregate that keeps a list of values")
    where = split.partial.args.get("where")
    if where is not None:
        writer.write_condition(where.this, allow_null=True)
    group = split.partial.args.get("group")
    for key in () if group is None else group.expressions:
        value = writer.write(key)
        if value.literal is not None or value.type not in EXACT_TYPES:
            raise SparkRequired("GROUP BY of a constant or a floating-point number")
    return PortableQuery(template)


def _check_sources(template: Template) -> None:
    """Raise `SparkRequired` unless the query reads plain columns of one table."""
    question, inputs, split = template.question, template.partial.inputs, template.split
    if split.whole is not None:
        raise SparkRequired(split.whole)
    tables = inputs.derived | inputs.relations | inputs.event_tables
    if tables:
        names = ", ".join(sorted(tables))
        raise SparkRequired(f"derived streams, relations, contexts or surroundings ({names})")
    for name, type_name in sorted(question.attributes.items()):
        if type_name not in PLAIN_TYPES:
            raise SparkRequired(f"attribute {name} of type {type_name}")
    clauses = split.partial.args
    from_table = isinstance(clauses["from_"].this, exp.Table)
    if not from_table or any(map(clauses.get, ("joins", "laterals", "with_"))):
        raise SparkRequired("joins or subqueries")


def _check_row_value(node: exp.Expr, writer: ExpressionWriter) -> None:
    """Accept a value of a plain row that both engines sort and write alike."""
    if writer.write(node).type not in _ROW_TYPES:
        raise SparkRequired("row value that is not text, a number or a time")


def _check_number_or_time(node: exp.Expr, writer: ExpressionWriter) -> None:
    """Accept what a norm is computed of: it is no text in any engine."""
    if writer.write(node).type not in {*_NUMBER_TYPES, "timestamp"}:
        raise SparkRequired("norm of values other than integers and floating-point numbers")


def _check_output(node: exp.Expr, writer: ExpressionWriter) -> None:
    """Accept an aggregate of a portable value, a product of such, or a grouping column."""
    if isinstance(node, exp.Filter):
        writer.write_condition(node.expression.this, allow_null=True)
        node = node.this
    if isinstance(node, exp.Mul):
        _check_output(node.left, writer)
        _check_output(node.right, writer)
    elif isinstance(node, exp.Count):
        if not isinstance(node.this, exp.Star):
            writer.write(node.this)
    elif isinstance(node, _AGGREGATES):
        argument = node.this.this if isinstance(node.this, exp.Cast) else node.this
        if writer.write(argument).type not in _NUMBER_TYPES:
            raise SparkRequired("sum or average of a non-numeric value")
    elif isinstance(node, exp.Min | exp.Max):
        if writer.write(node.this).type == "decimal":
            raise SparkRequired("aggregate of a constant")
    elif isinstance(node, exp.LogicalAnd | exp.LogicalOr | exp.CountIf):
        if writer.write(node.this).type != "boolean":
            raise SparkRequired("boolean aggregate of a non-boolean value")
    elif isinstance(node, exp.ArrayUniqueAgg):
        is_column = isinstance(node.this, exp.Column)
        if not is_column or writer.write(node.this).type not in EXACT_TYPES:
            raise SparkRequired("DISTINCT of an expression or a floating-point column")
    else:
        writer.write(node)
