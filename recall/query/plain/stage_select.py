"""The stages that are known to give the same rows in DuckDB as in Spark. No I/O.

One SELECT over tables that it names: filters, projections, joins with conditions (also bounded in
time: `a.ts BETWEEN b.ts - INTERVAL … AND …`), groups and common aggregates. Anything else is run by
Spark. `tests/contract/test_stage_engines.py` compares the engines.
"""

from collections.abc import Mapping

from sqlglot import exp

from recall.errors import SparkRequired
from recall.query.parsing import parse
from recall.query.parts import (
    aggregates_of,
    clauses_of,
    joins_of,
    normalize_aggregates,
    resolve_output,
    sources_of,
)
from recall.query.plain.expressions import ExpressionWriter
from recall.query.plain.model import EXACT_TYPES, PLAIN_TYPES, RECALL_TYPES
from recall.query.plain.recalls import create_recall_writer
from recall.query.sql_names import EVENT

_CLAUSES = {"expressions", "from_", "joins", "where", "group", "having", "distinct"}
_NUMBER_TYPES = ("int", "bigint", "double")
# The types of columns by name.
_ColumnTypes = Mapping[str, str]
_INTERVAL_UNITS = ("MILLISECOND", "SECOND", "MINUTE", "HOUR")
_DEVIATIONS = (
    exp.VariancePop,
    exp.Variance,
    exp.StddevPop,
    exp.Stddev,
    exp.StddevSamp,
)
# Holds the values of aggregates while the expressions around them are checked.
_AGGREGATES = "_aggregates"


def check_stage_select(
    sql: str,
    result_types: _ColumnTypes,
    attributes: _ColumnTypes,
    columns_by_table: Mapping[str, _ColumnTypes],
) -> None:
    """Raise `SparkRequired`, with the reason, for everything that is not known to be equal.

    `attributes`: of the event. `columns_by_table`: of all tables that the stage may name, by name
    in lower case.
    """
    query = normalize_aggregates(parse(sql))
    if not isinstance(query, exp.Select) or clauses_of(query) - _CLAUSES:
        raise SparkRequired("clause other than SELECT, FROM, JOIN, WHERE, GROUP BY and HAVING")
    for name, column_type in result_types.items():
        if column_type not in RECALL_TYPES:
            raise SparkRequired(f"column {name} of type {column_type}")
    tables: dict[str, _ColumnTypes] = {}
    for source in sources_of(query):
        if not isinstance(source, exp.Table) or source.name.lower() not in columns_by_table:
            raise SparkRequired("subqueries")
        tables[source.alias_or_name] = columns_by_table[source.name.lower()]
    tables[EVENT] = {**attributes, "ts": "timestamp", "eid": "string"}
    _Checker(query, tables).check()


class _Checker:
    """Checks the clauses of one SELECT."""

    def __init__(self, query: exp.Select, tables: Mapping[str, _ColumnTypes]) -> None:
        self._query = query
        self._tables = tables
        self._writer = create_recall_writer(tables, {EVENT})

    def check(self) -> None:
        query = self._query
        for join in joins_of(query):
            self._check_join(join)
        where = query.args.get("where")
        if where is not None:
            _check_condition(where.this, self._writer)
        group = query.args.get("group")
        if group is not None and clauses_of(group) - {"expressions"}:
            raise SparkRequired("GROUP BY with sets of groups")
        entries = [] if group is None else group.expressions
        keys = [resolve_output(entry, query.expressions) for entry in entries]
        if query.args.get("distinct"):
            keys += [output.unalias() for output in query.expressions]
        for key in keys:
            value = self._writer.write(_without_intervals(key, self._writer))
            if value.literal is not None or value.type not in EXACT_TYPES:
                raise SparkRequired("GROUP BY of a constant or a floating-point number")
        results = _replace_aggregates(query, self._writer)
        result_tables = {**self._tables, _AGGREGATES: results.types}
        writer = create_recall_writer(result_tables, {EVENT, _AGGREGATES})
        for output in results.query.expressions:
            if isinstance(output, exp.Star) or output.is_star:
                continue
            writer.write(_without_intervals(output.unalias(), writer))
        having = results.query.args.get("having")
        if having is not None:
            _check_condition(having.this, writer)

    def _check_join(self, join: exp.Join) -> None:
        is_other = join.args.get("using") or join.method or join.side not in ("", "LEFT")
        if is_other or join.kind not in ("", "INNER", "CROSS"):
            raise SparkRequired("joins other than JOIN … ON and LEFT JOIN … ON")
        condition = join.args.get("on")
        if condition is not None:
            _check_condition(condition, self._writer)


class _Results:
    """A query whose aggregates are replaced by columns, and the types of these."""

    def __init__(self, query: exp.Select) -> None:
        self.query = query
        self.types: dict[str, str] = {}

    def add(self, result_type: str) -> exp.Column:
        name = f"a{len(self.types)}"
        self.types[name] = result_type
        return exp.column(name, table=_AGGREGATES)


def _replace_aggregates(query: exp.Select, writer: ExpressionWriter) -> _Results:
    results = _Results(query.copy())
    for aggregate in list(aggregates_of(results.query)):
        node = aggregate
        if isinstance(aggregate.parent, exp.Filter):
            node = aggregate.parent
            _check_condition(node.expression.this, writer)
        node.replace(results.add(_aggregate_type(aggregate, writer)))
    return results


def _aggregate_type(node: exp.Expr, writer: ExpressionWriter) -> str:
    """The type of the value of an aggregate. Raises `SparkRequired`."""
    if isinstance(node, exp.Count):
        argument = node.this
        if isinstance(argument, exp.Distinct):
            if len(argument.expressions) != 1:
                raise SparkRequired("DISTINCT of several columns")
            argument = argument.expressions[0]
            if writer.write(argument).type not in EXACT_TYPES:
                raise SparkRequired("DISTINCT of a floating-point number")
        elif not isinstance(argument, exp.Star):
            writer.write(argument)
        return "bigint"
    if isinstance(node, exp.ArgMax | exp.ArgMin):
        value = writer.write(node.this)
        order = writer.write(node.expression)
        if value.literal is not None or order.type not in PLAIN_TYPES:
            raise SparkRequired("max_by or min_by of a constant")
        return value.type
    operand = writer.write(node.this) if node.this is not None else None
    if operand is None or operand.literal is not None:
        raise SparkRequired("aggregate of a constant")
    if isinstance(node, exp.Min | exp.Max):
        if clauses_of(node) - {"this"}:
            raise SparkRequired("aggregate with further arguments")
        return operand.type
    if not isinstance(node, (exp.Sum, exp.Avg, *_DEVIATIONS)) or isinstance(
        node.this, exp.Distinct
    ):
        raise SparkRequired(f"aggregate {node.sql(dialect='spark')[:80]}")
    if operand.type not in _NUMBER_TYPES:
        raise SparkRequired("sum or average of a non-numeric value")
    if isinstance(node, exp.Sum) and operand.type != "double":
        return "bigint"
    return "double"


def _check_condition(node: exp.Expr, writer: ExpressionWriter) -> None:
    if writer.write(_without_intervals(node, writer)).type not in ("boolean", "null"):
        raise SparkRequired("condition that is not boolean")


def _without_intervals(node: exp.Expr, writer: ExpressionWriter) -> exp.Expr:
    """The expression with `time ± INTERVAL` as `time`, which has the same type."""
    root: exp.Expr = exp.paren(node.copy())
    for operation in list(root.find_all(exp.Add, exp.Sub)):
        interval = operation.expression
        if not isinstance(interval, exp.Interval):
            continue
        unit = interval.args.get("unit")
        unit_name = "" if unit is None else unit.name.upper().removesuffix("S")
        is_constant = isinstance(interval.this, exp.Literal)
        if unit_name not in _INTERVAL_UNITS or not is_constant:
            raise SparkRequired("interval of a unit other than hours, minutes and seconds")
        if writer.write(operation.this).type != "timestamp":
            raise SparkRequired("interval added to a value that is not a timestamp")
        operation.replace(operation.this.copy())
    inner: exp.Expr = root.this
    return inner
