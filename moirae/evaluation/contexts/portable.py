"""The context queries that are known to give the same rows in DuckDB as in Spark. No I/O.

One SELECT over one stream, with the expressions of `recall.query.plain`, WHERE, DISTINCT, GROUP BY
and the aggregates count, min and max, but no DISTINCT, GROUP BY, min and max of floating-point
numbers. Sums and averages depend on the order of the rows. `tests/contract/test_context_engines.py`
compares the engines.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from moirae.evaluation.contexts.queries import LiftedContextQuery
from recall.engines.pending_events import PLAIN_TYPES
from recall.errors import SparkRequired
from recall.query import clauses_of, parse, sql_names
from recall.query.plain import (
    EXACT_TYPES,
    ExpressionWriter,
    create_recall_writer,
    select_columns,
    to_duckdb_sql,
)

_AGGREGATES = (exp.Count, exp.Min, exp.Max)
_CLAUSES = frozenset(("kind", "expressions", "from_", "where", "group", "distinct"))
# Types that both engines cast to the same text, for compared values.
_TEXT_TYPES = EXACT_TYPES - {"timestamp"}


@dataclass(frozen=True)
class PortableContext:
    """A context query in DuckDB's SQL, and the types of its columns after the event's ID."""

    sql: str
    types: tuple[str, ...]


def to_portable(query: LiftedContextQuery, columns: Mapping[str, str]) -> PortableContext:
    """The query in DuckDB's SQL; `columns`: of its stream, with their types.

    Raises `SparkRequired` for everything that is not known to be equal.
    """
    select = parse(query.context_query.query.sql)
    table = _find_table(query, select)
    event_columns = {
        **select_columns(query.types, PLAIN_TYPES),
        "ts": "timestamp",
        "eid": "string",
    }
    writer = create_recall_writer(
        {table: columns, sql_names.EVENT: event_columns}, {sql_names.EVENT}
    )
    where = select.args.get("where")
    if where is not None:
        writer.write_condition(where.this, allow_null=True)
    group = select.args.get("group")
    if group is not None:
        if clauses_of(group) != {"expressions"}:
            raise SparkRequired("GROUP BY with sets of groups")
        aliases = {output.alias.lower() for output in select.expressions}
        for key in group.expressions:
            # An alias that is also a column's name, or a position, may mean either.
            if not isinstance(key, exp.Column) or (not key.table and key.name.lower() in aliases):
                raise SparkRequired("GROUP BY of something other than columns")
            _check_type(_type_of(key, writer), EXACT_TYPES, "group")
    is_distinct = bool(select.args.get("distinct"))
    types: list[str] = []
    for output in select.expressions:
        output_type = _type_of(output.unalias(), writer)
        if query.context_query.is_compared:
            _check_type(output_type, _TEXT_TYPES, "compared value")
        elif is_distinct:
            _check_type(output_type, EXACT_TYPES, "DISTINCT value")
        else:
            _check_type(output_type, EXACT_TYPES | {"double"}, "value")
        types.append(output_type)
    if len(types) != len({column.lower() for column in query.columns}):
        raise SparkRequired("columns without a name of their own")
    return PortableContext(to_duckdb_sql(query.lifted.query), tuple(types))


def _find_table(query: LiftedContextQuery, select: exp.Query) -> str:
    """The alias of the only table that a query reads: a stream. Raises `SparkRequired`."""
    inputs = query.lifted.inputs
    if not isinstance(select, exp.Select) or clauses_of(select) - _CLAUSES:
        raise SparkRequired("clauses other than SELECT, DISTINCT, FROM, WHERE and GROUP BY")
    distinct = select.args.get("distinct")
    if distinct is not None and clauses_of(distinct):
        raise SparkRequired("DISTINCT ON")
    if inputs.derived or inputs.relations or inputs.event_tables or len(inputs.streams) != 1:
        raise SparkRequired("tables other than one stream")
    from_ = select.args["from_"]
    if not isinstance(from_.this, exp.Table):
        raise SparkRequired("subquery")
    return str(from_.this.alias_or_name)


def _type_of(node: exp.Expr, writer: ExpressionWriter) -> str:
    """The type of a value or aggregate. Raises `SparkRequired`."""
    if isinstance(node, _AGGREGATES) and clauses_of(node) - {"this", "big_int"}:
        raise SparkRequired("aggregate of several values")
    if isinstance(node, exp.Count):
        if not isinstance(node.this, exp.Star):
            writer.write(node.this)
        return "bigint"
    if isinstance(node, exp.Min | exp.Max):
        node_type = writer.write(node.this).type
        _check_type(node_type, EXACT_TYPES, "aggregate")
        return node_type
    return writer.write(node).type


def _check_type(value_type: str, allowed_types: frozenset[str], subject: str) -> None:
    if value_type not in allowed_types:
        raise SparkRequired(f"{subject} of type {value_type}")
