"""The part of SQL that is known to give the same results in DuckDB as in Spark. No I/O.

One stream; columns, constants and the event's attributes of plain types; comparisons, IN, BETWEEN,
LIKE, CASE, AND, OR, NOT, + - *; groups that are not fractions; and the aggregates that can be split
except those that keep lists, unless the lists are only counted. `tests/contract` compares the
engines.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from recall.engines.pending_events import PLAIN_TYPES
from recall.engines.template import Template
from recall.errors import SparkRequired
from recall.query import sql_names
from recall.query.split import LIST_KINDS

TypeClass = Literal["number", "string", "boolean", "timestamp", "null"]

_TYPE_CLASSES: dict[str, TypeClass] = {
    "int": "number",
    "bigint": "number",
    "float": "number",
    "double": "number",
    "string": "string",
    "boolean": "boolean",
    "timestamp": "timestamp",
}
_CONDITION_CLASSES = ("boolean", "null")
# Types whose values are equal in both engines if and only if they are identical.
_EXACT_TYPES = ("string", "int", "bigint", "boolean", "timestamp")
_AGGREGATES = (
    exp.Sum,
    exp.Avg,
    exp.VariancePop,
    exp.Variance,
    exp.StddevPop,
    exp.Stddev,
    exp.StddevSamp,
)
_MAX_EXPRESSION_LENGTH = 80  # characters of an expression in a message


@dataclass(frozen=True)
class PortableQuery:
    """A partial query in DuckDB's SQL; each text is generated when first used."""

    template: Template

    @cached_property
    def filtered_sql(self) -> str:
        """The query with a filter of rows by the range of the piece."""
        return self.template.partial.query.sql(dialect=DuckDB)

    @cached_property
    def rows_in_range_sql(self) -> str:
        """The query without that filter, if all rows lie in the piece."""
        return self.template.partial_rows_in_range.query.sql(dialect=DuckDB)


def to_portable(template: Template, columns: Mapping[str, str]) -> PortableQuery:
    """The partial query in DuckDB's SQL; `columns`: of its stream, with their types.

    Raises `SparkRequired` for everything that is not known to be equal.
    """
    question, split = template.question, template.split
    _check_sources(template)
    event_types = {name.lower(): type_name for name, type_name in question.attributes.items()}
    event_types.update(ts="timestamp", eid="string")
    column_types = {name.lower(): type_name for name, type_name in columns.items()}
    type_checker = TypeChecker(column_types, event_types)
    for output in split.partial.expressions:
        _check_output(output.unalias(), type_checker)
    for aggregate in split.aggregates:
        if aggregate.kind in LIST_KINDS and aggregate.kind != "count_distinct":
            raise SparkRequired("aggregates that keep lists of values need Spark")
    where = split.partial.args.get("where")
    if where is not None and type_checker.type_class(where.this) not in _CONDITION_CLASSES:
        raise SparkRequired("WHERE is not a boolean expression")
    for key in split.partial.args["group"].expressions:
        is_number = type_checker.type_class(key) == "number"
        if is_number and type_checker.column_type(key) not in ("int", "bigint"):
            raise SparkRequired("groups by fractions or by computed numbers need Spark")
    return PortableQuery(template)


def _check_sources(template: Template) -> None:
    """Raise `SparkRequired` unless the query reads plain columns of one table."""
    question, inputs, split = template.question, template.partial.inputs, template.split
    if split.selects_rows:
        raise SparkRequired("plain rows are read by Spark")
    tables = inputs.derived | inputs.relations | inputs.event_tables
    if tables:
        names = ", ".join(sorted(tables))
        raise SparkRequired(
            f"derived streams, relations, contexts and surroundings are read by Spark ({names})"
        )
    for name, type_name in sorted(question.attributes.items()):
        if type_name not in PLAIN_TYPES:
            raise SparkRequired(f"the attribute {name} is of type {type_name}")
    clauses = split.partial.args
    from_table = isinstance(clauses["from_"].this, exp.Table)
    if clauses.get("joins") or clauses.get("with_") or not from_table:
        raise SparkRequired("joins and subqueries need Spark")


def _check_output(node: exp.Expr, type_checker: "TypeChecker") -> None:
    """Accept an aggregate of a portable value, a product of such, or a grouping column."""
    if isinstance(node, exp.Filter):
        if type_checker.type_class(node.expression.this) not in _CONDITION_CLASSES:
            raise SparkRequired("FILTER is not a boolean expression")
        node = node.this
    if isinstance(node, exp.Mul):
        _check_output(node.left, type_checker)
        _check_output(node.right, type_checker)
    elif isinstance(node, exp.Count):
        if not isinstance(node.this, exp.Star):
            type_checker.type_class(node.this)
    elif isinstance(node, _AGGREGATES):
        argument = node.this.this if isinstance(node.this, exp.Cast) else node.this
        if type_checker.type_class(argument) != "number":
            raise SparkRequired("sums and averages are portable for numbers only")
    elif isinstance(node, exp.Min | exp.Max):
        type_checker.type_class(node.this)
    elif isinstance(node, exp.LogicalAnd | exp.LogicalOr | exp.CountIf):
        if type_checker.type_class(node.this) != "boolean":
            raise SparkRequired("boolean aggregates are portable for boolean values only")
    elif isinstance(node, exp.ArrayUniqueAgg):
        if type_checker.column_type(node.this) not in _EXACT_TYPES:
            raise SparkRequired("distinct values of fractions or expressions need Spark")
    else:
        type_checker.type_class(node)


class TypeChecker:
    """Classifies expressions by type; expressions that are not listed here need Spark."""

    def __init__(self, columns: Mapping[str, str], event_columns: Mapping[str, str]) -> None:
        self._columns = columns
        self._event_columns = event_columns
        self._methods: dict[type[exp.Expr], Callable[[Any], TypeClass]] = {
            exp.Paren: self._paren_class,
            exp.Column: self._column_class,
            exp.Literal: self._literal_class,
            exp.Boolean: lambda _: "boolean",
            exp.Null: lambda _: "null",
            exp.And: self._connective_class,
            exp.Or: self._connective_class,
            exp.Not: self._not_class,
            exp.Is: self._is_class,
            exp.Neg: self._neg_class,
            exp.In: self._in_class,
            exp.Between: self._between_class,
            exp.Like: self._like_class,
            exp.Case: self._case_class,
        }
        for comparison in (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE):
            self._methods[comparison] = self._comparison_class
        for operator in (exp.Add, exp.Sub, exp.Mul):
            self._methods[operator] = self._arithmetic_class

    def column_type(self, node: exp.Expr) -> str | None:
        """The Spark type of a column; None for other expressions and unknown columns."""
        if not isinstance(node, exp.Column) or node.db:
            return None
        columns = self._event_columns if node.table.lower() == sql_names.EVENT else self._columns
        return columns.get(node.name.lower())

    def type_class(self, node: exp.Expr) -> TypeClass:
        """The class of an expression's type. Raises `SparkRequired` if it is not portable."""
        method = self._methods.get(type(node))
        if method is None:
            raise _not_portable(node)
        return method(node)

    def _paren_class(self, node: exp.Paren) -> TypeClass:
        return self.type_class(node.this)

    def _column_class(self, node: exp.Column) -> TypeClass:
        type_name = self.column_type(node)
        type_class = _TYPE_CLASSES.get(type_name or "")
        if type_class is None:
            raise SparkRequired(f"the column {node.name} is of type {type_name or 'unknown'}")
        return type_class

    def _literal_class(self, node: exp.Literal) -> TypeClass:
        return "string" if node.is_string else "number"

    def _comparison_class(self, node: exp.Binary) -> TypeClass:
        self._require_same(node.left, node.right)
        return "boolean"

    def _connective_class(self, node: exp.Binary) -> TypeClass:
        self._require(node.left, "boolean")
        return self._require(node.right, "boolean")

    def _not_class(self, node: exp.Not) -> TypeClass:
        return self._require(node.this, "boolean")

    def _is_class(self, node: exp.Is) -> TypeClass:
        if not isinstance(node.expression, exp.Null):
            raise _not_portable(node)
        self.type_class(node.this)
        return "boolean"

    def _arithmetic_class(self, node: exp.Binary) -> TypeClass:
        if _is_decimal(node.left) or _is_decimal(node.right):
            raise SparkRequired("arithmetic with decimal constants needs Spark")
        self._require(node.left, "number")
        return self._require(node.right, "number")

    def _neg_class(self, node: exp.Neg) -> TypeClass:
        return self._require(node.this, "number")

    def _in_class(self, node: exp.In) -> TypeClass:
        if node.args.get("query") or node.args.get("unnest"):
            raise _not_portable(node)
        for value in node.expressions:
            self._require_same(node.this, value)
        return "boolean"

    def _between_class(self, node: exp.Between) -> TypeClass:
        self._require_same(node.this, node.args["low"])
        self._require_same(node.this, node.args["high"])
        return "boolean"

    def _like_class(self, node: exp.Like) -> TypeClass:
        if not isinstance(node.expression, exp.Literal):
            raise _not_portable(node)
        if "\\" in node.expression.name:
            raise SparkRequired("LIKE with escapes needs Spark")
        self._require_same(node.this, node.expression)
        return "boolean"

    def _case_class(self, node: exp.Case) -> TypeClass:
        if node.this is not None or node.args.get("default") is None:
            raise _not_portable(node)
        values = [node.args["default"]]
        for branch in node.args["ifs"]:
            self._require(branch.this, "boolean")
            values.append(branch.args["true"])
        if any(map(_is_decimal_number, values)):
            raise SparkRequired("decimal constants in CASE need Spark")
        type_classes = set(map(self.type_class, values)) - {"null"}
        if len(type_classes) != 1:
            raise SparkRequired("CASE with values of different types needs Spark")
        return type_classes.pop()

    def _require(self, node: exp.Expr, type_class: TypeClass) -> TypeClass:
        if self.type_class(node) != type_class:
            raise SparkRequired(f"{_excerpt(node)} is not of type {type_class}")
        return type_class

    def _require_same(self, first: exp.Expr, second: exp.Expr) -> None:
        if self.type_class(first) != self.type_class(second):
            raise SparkRequired("comparisons of different types need Spark")


def _is_decimal(node: exp.Expr) -> bool:
    """Whether a node is a constant other than a whole number."""
    return isinstance(node, exp.Literal) and not node.is_int


def _is_decimal_number(node: exp.Expr) -> bool:
    return _is_decimal(node) and not node.is_string


def _excerpt(node: exp.Expr) -> str:
    return node.sql(dialect="spark")[:_MAX_EXPRESSION_LENGTH]


def _not_portable(node: exp.Expr) -> SparkRequired:
    return SparkRequired(f"{_excerpt(node)} needs Spark")
