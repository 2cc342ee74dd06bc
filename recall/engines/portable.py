"""The part of SQL that is known to mean the same in DuckDB as in Spark.

One stream; columns, constants and the event's attributes of plain types; comparisons, IN, BETWEEN,
LIKE, CASE, AND, OR, NOT, + - *; groups that are no fractions; and the aggregates that can be
split, but for those that hold lists, unless these are only counted. `tests/contract` shows that
the answers are alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from recall.engines.pending_events import PLAIN_TYPES
from recall.engines.template import Template
from recall.errors import SparkRequired
from recall.query import sql_names
from recall.query.split import LIST_KINDS

TypeClass = Literal["number", "string", "boolean", "timestamp", "null"]

_TYPE_CLASSES: dict[str, TypeClass] = {
    **dict.fromkeys(("int", "bigint", "float", "double"), "number"),
    "string": "string",
    "boolean": "boolean",
    "timestamp": "timestamp",
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
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
    """A partial query in DuckDB's words, each written when it is wanted first."""

    template: Template

    @cached_property
    def filtered_sql(self) -> str:
        """It compares each row's time with the piece."""
        return self.template.partial.query.sql(dialect=DuckDB)

    @cached_property
    def rows_in_range_sql(self) -> str:
        """For where all rows that are read lie in the piece."""
        return self.template.partial_rows_in_range.query.sql(dialect=DuckDB)


def to_portable(template: Template, columns: Mapping[str, str]) -> PortableQuery:
    """The partial query; `columns` of its stream. Raises `NotServed` for all that is not known to
    be alike.
    """
    question, used, chosen = template.question, template.partial.inputs, template.split
    if chosen.selects_rows:
        raise SparkRequired("plain rows are read by Spark")
    if used.derived or used.relations or used.event_tables:
        names = ", ".join(sorted(used.derived | used.relations | used.event_tables))
        raise SparkRequired(
            f"derived streams, relations and the rule's own tables are read by Spark ({names})"
        )
    others = sorted(name for name, kind in question.attributes.items() if kind not in PLAIN_TYPES)
    if others:
        raise SparkRequired(
            f"the attribute {others[0]} is of type {question.attributes[others[0]]}"
        )
    partial = chosen.partial
    if (
        partial.args.get("joins")
        or partial.args.get("with_")
        or not isinstance(partial.args["from_"].this, exp.Table)
    ):
        raise SparkRequired("joins and subqueries are Spark's")
    types = {name.lower(): kind for name, kind in columns.items()}
    events = {name.lower(): kind for name, kind in question.attributes.items()} | {
        "ts": "timestamp",
        "eid": "string",
    }
    typing = TypeChecker(types, events)
    for output in partial.expressions:
        _check_output(output.unalias(), typing)
    if any(a.kind in LIST_KINDS and a.kind != "count_distinct" for a in chosen.aggregates):
        raise SparkRequired("lists of values are Spark's")
    where = partial.args.get("where")
    if where is not None and typing.type_class(where.this) not in ("boolean", "null"):
        raise SparkRequired("a WHERE that is no plain condition")
    for key in partial.args["group"].expressions:
        if typing.type_class(key) == "number" and typing.column_type(key) not in ("int", "bigint"):
            raise SparkRequired("groups by fractions, or by numbers that are computed")
    return PortableQuery(template)


def _check_output(node: exp.Expr, typing: "TypeChecker") -> None:
    """An aggregate over something simple, products of such, or a column that is grouped by."""
    if isinstance(node, exp.Filter):
        if typing.type_class(node.expression.this) not in ("boolean", "null"):
            raise SparkRequired("a FILTER that is no plain condition")
        node = node.this
    if isinstance(node, exp.Mul):
        _check_output(node.left, typing)
        _check_output(node.right, typing)
    elif isinstance(node, exp.Count):
        if not isinstance(node.this, exp.Star):
            typing.type_class(node.this)
    elif isinstance(node, _AGGREGATES):
        inner = node.this.this if isinstance(node.this, exp.Cast) else node.this
        if typing.type_class(inner) != "number":
            raise SparkRequired("sums and averages of numbers only")
    elif isinstance(node, exp.Min | exp.Max):
        typing.type_class(node.this)
    elif isinstance(node, exp.LogicalAnd | exp.LogicalOr | exp.CountIf):
        if typing.type_class(node.this) != "boolean":
            raise SparkRequired("truth values only")
    elif isinstance(node, exp.ArrayUniqueAgg):
        if typing.column_type(node.this) not in ("string", "int", "bigint", "boolean", "timestamp"):
            raise SparkRequired("distinct values of columns that are no fractions only")
    else:
        typing.type_class(node)


class TypeChecker:
    """The kinds of expressions; what is not listed here is left to Spark."""

    def __init__(self, columns: Mapping[str, str], event_columns: Mapping[str, str]) -> None:
        self._columns = columns
        self._event_columns = event_columns

    def column_type(self, node: exp.Expr) -> str | None:
        """The type of a column."""
        if not isinstance(node, exp.Column) or node.db:
            return None
        return (
            self._event_columns if node.table.lower() == sql_names.EVENT else self._columns
        ).get(node.name.lower())

    def type_class(self, node: exp.Expr) -> TypeClass:
        """Raises `NotServed` for what is not known to be the same everywhere."""
        if isinstance(node, exp.Paren):
            return self.type_class(node.this)
        if isinstance(node, exp.Column):
            kind = _TYPE_CLASSES.get(self.column_type(node) or "")
            if kind is None:
                raise SparkRequired(
                    f"the column {node.name} is of type {self.column_type(node) or 'unknown'}"
                )
            return kind
        if isinstance(node, exp.Literal):
            return "string" if node.is_string else "number"
        if isinstance(node, exp.Boolean):
            return "boolean"
        if isinstance(node, exp.Null):
            return "null"
        if isinstance(node, _COMPARISONS):
            return self._require_same(node.left, node.right, "boolean")
        if isinstance(node, exp.And | exp.Or):
            for side in (node.left, node.right):
                if self.type_class(side) != "boolean":
                    raise SparkRequired("AND and OR of plain conditions only")
            return "boolean"
        if isinstance(node, exp.Not):
            return self._require(node.this, "boolean")
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            self.type_class(node.this)
            return "boolean"
        if isinstance(node, exp.Add | exp.Sub | exp.Mul):
            if any(
                isinstance(side, exp.Literal) and not side.is_int
                for side in (node.left, node.right)
            ):
                raise SparkRequired("no arithmetic with decimals")
            self._require(node.left, "number")
            return self._require(node.right, "number")
        if isinstance(node, exp.Neg):
            return self._require(node.this, "number")
        if isinstance(node, exp.In) and not node.args.get("query") and not node.args.get("unnest"):
            for one in node.expressions:
                self._require_same(node.this, one, "boolean")
            return "boolean"
        if isinstance(node, exp.Between):
            self._require_same(node.this, node.args["low"], "boolean")
            return self._require_same(node.this, node.args["high"], "boolean")
        if isinstance(node, exp.Like) and isinstance(node.expression, exp.Literal):
            if "\\" in node.expression.name:
                raise SparkRequired("LIKE with escapes")
            return self._require_same(node.this, node.expression, "boolean")
        if (
            isinstance(node, exp.Case)
            and node.this is None
            and node.args.get("default") is not None
        ):
            return self._case_class(node)
        raise SparkRequired(f"{node.sql(dialect='spark')[:80]} is Spark's")

    def _case_class(self, node: exp.Case) -> TypeClass:
        found = [node.args["default"]]
        for branch in node.args["ifs"]:
            self._require(branch.this, "boolean")
            found.append(branch.args["true"])
        if any(
            isinstance(one, exp.Literal) and not one.is_string and not one.is_int for one in found
        ):
            raise SparkRequired("decimals are Spark's")
        kinds = {self.type_class(one) for one in found} - {"null"}
        if len(kinds) != 1:
            raise SparkRequired("CASE of one kind of values only")
        return kinds.pop()

    def _require(self, node: exp.Expr, kind: TypeClass) -> TypeClass:
        if self.type_class(node) != kind:
            raise SparkRequired(f"{kind}s only")
        return kind

    def _require_same(self, left: exp.Expr, right: exp.Expr, result: TypeClass) -> TypeClass:
        if self.type_class(left) != self.type_class(right):
            raise SparkRequired("comparisons of one kind only")
        return result
