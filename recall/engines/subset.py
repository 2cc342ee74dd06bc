"""The part of SQL that is known to mean the same in DuckDB as in Spark.

One stream; columns, constants and the event's attributes of plain types; comparisons, IN, BETWEEN, LIKE, CASE, AND, OR,
NOT, + - *; groups that are no fractions; and the aggregates that can be split, but for those that hold lists, unless
these are only counted. `tests/contract` shows that the answers are alike.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from recall.engines.template import Template
from recall.pending import PLAIN
from recall.query.parts import EVENT
from recall.query.split import LISTS

Kind = Literal["number", "string", "boolean", "timestamp", "null"]

_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("int", "bigint", "float", "double"), "number"),
    "string": "string",
    "boolean": "boolean",
    "timestamp": "timestamp",
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_AGGREGATES = (exp.Sum, exp.Avg, exp.VariancePop, exp.Variance, exp.StddevPop, exp.Stddev, exp.StddevSamp)


class NotServed(Exception):
    """This engine cannot answer; Spark can."""


@dataclass(frozen=True)
class Served:
    """A partial query in DuckDB's words, each written when it is wanted first."""

    template: Template

    @cached_property
    def cut(self) -> str:
        """It compares each row's time with the piece."""
        return self.template.partial.query.sql(dialect=DuckDB)

    @cached_property
    def within(self) -> str:
        """For where all rows that are read lie in the piece."""
        return self.template.partial_within.query.sql(dialect=DuckDB)


def served(template: Template, columns: Mapping[str, str]) -> Served:
    """The partial query; `columns` of its stream. Raises `NotServed` for all that is not known to be alike."""
    question, used, chosen = template.question, template.partial.used, template.split
    if chosen.rows:
        raise NotServed("plain rows are read by Spark")
    if used.derived or used.relations or used.own:
        names = ", ".join(sorted(used.derived | used.relations | used.own))
        raise NotServed(f"derived streams, relations and the rule's own tables are read by Spark ({names})")
    others = sorted(name for name, kind in question.attributes.items() if kind not in PLAIN)
    if others:
        raise NotServed(f"the attribute {others[0]} is of type {question.attributes[others[0]]}")
    partial = chosen.partial
    if partial.args.get("joins") or partial.args.get("with_") or not isinstance(partial.args["from_"].this, exp.Table):
        raise NotServed("joins and subqueries are Spark's")
    types = {name.lower(): kind for name, kind in columns.items()}
    events = {name.lower(): kind for name, kind in question.attributes.items()} | {"ts": "timestamp", "eid": "string"}
    typing = Typing(types, events)
    for output in partial.expressions:
        _check_output(output.unalias(), typing)
    if any(a.kind in LISTS and a.kind != "count_distinct" for a in chosen.aggregates):
        raise NotServed("lists of values are Spark's")
    where = partial.args.get("where")
    if where is not None and typing.kind(where.this) not in ("boolean", "null"):
        raise NotServed("a WHERE that is no plain condition")
    for key in partial.args["group"].expressions:
        if typing.kind(key) == "number" and typing.type(key) not in ("int", "bigint"):
            raise NotServed("groups by fractions, or by numbers that are computed")
    return Served(template)


def _check_output(node: exp.Expr, typing: "Typing") -> None:
    """An aggregate over something simple, products of such, or a column that is grouped by."""
    if isinstance(node, exp.Filter):
        if typing.kind(node.expression.this) not in ("boolean", "null"):
            raise NotServed("a FILTER that is no plain condition")
        node = node.this
    if isinstance(node, exp.Mul):
        _check_output(node.left, typing)
        _check_output(node.right, typing)
    elif isinstance(node, exp.Count):
        if not isinstance(node.this, exp.Star):
            typing.kind(node.this)
    elif isinstance(node, _AGGREGATES):
        inner = node.this.this if isinstance(node.this, exp.Cast) else node.this
        if typing.kind(inner) != "number":
            raise NotServed("sums and averages of numbers only")
    elif isinstance(node, exp.Min | exp.Max):
        typing.kind(node.this)
    elif isinstance(node, exp.LogicalAnd | exp.LogicalOr | exp.CountIf):
        if typing.kind(node.this) != "boolean":
            raise NotServed("truth values only")
    elif isinstance(node, exp.ArrayUniqueAgg):
        if typing.type(node.this) not in ("string", "int", "bigint", "boolean", "timestamp"):
            raise NotServed("distinct values of columns that are no fractions only")
    else:
        typing.kind(node)


class Typing:
    """The kinds of expressions; what is not listed here is left to Spark."""

    def __init__(self, columns: Mapping[str, str], events: Mapping[str, str]) -> None:
        self._columns = columns
        self._events = events

    def type(self, node: exp.Expr) -> str | None:
        """The type of a column."""
        if not isinstance(node, exp.Column) or node.db:
            return None
        return (self._events if node.table.lower() == EVENT else self._columns).get(node.name.lower())

    def kind(self, node: exp.Expr) -> Kind:
        """Raises `NotServed` for what is not known to be the same everywhere."""
        if isinstance(node, exp.Paren):
            return self.kind(node.this)
        if isinstance(node, exp.Column):
            kind = _KINDS.get(self.type(node) or "")
            if kind is None:
                raise NotServed(f"the column {node.name} is of type {self.type(node) or 'unknown'}")
            return kind
        if isinstance(node, exp.Literal):
            return "string" if node.is_string else "number"
        if isinstance(node, exp.Boolean):
            return "boolean"
        if isinstance(node, exp.Null):
            return "null"
        if isinstance(node, _COMPARISONS):
            return self._same(node.left, node.right, "boolean")
        if isinstance(node, exp.And | exp.Or):
            for side in (node.left, node.right):
                if self.kind(side) != "boolean":
                    raise NotServed("AND and OR of plain conditions only")
            return "boolean"
        if isinstance(node, exp.Not):
            return self._only(node.this, "boolean")
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            self.kind(node.this)
            return "boolean"
        if isinstance(node, exp.Add | exp.Sub | exp.Mul):
            if any(isinstance(side, exp.Literal) and not side.is_int for side in (node.left, node.right)):
                raise NotServed("no arithmetic with decimals")
            self._only(node.left, "number")
            return self._only(node.right, "number")
        if isinstance(node, exp.Neg):
            return self._only(node.this, "number")
        if isinstance(node, exp.In) and not node.args.get("query") and not node.args.get("unnest"):
            for one in node.expressions:
                self._same(node.this, one, "boolean")
            return "boolean"
        if isinstance(node, exp.Between):
            self._same(node.this, node.args["low"], "boolean")
            return self._same(node.this, node.args["high"], "boolean")
        if isinstance(node, exp.Like) and isinstance(node.expression, exp.Literal):
            if "\\" in node.expression.name:
                raise NotServed("LIKE with escapes")
            return self._same(node.this, node.expression, "boolean")
        if isinstance(node, exp.Case) and node.this is None and node.args.get("default") is not None:
            return self._case(node)
        raise NotServed(f"{node.sql(dialect='spark')[:80]} is Spark's")

    def _case(self, node: exp.Case) -> Kind:
        found = [node.args["default"]]
        for branch in node.args["ifs"]:
            self._only(branch.this, "boolean")
            found.append(branch.args["true"])
        if any(isinstance(one, exp.Literal) and not one.is_string and not one.is_int for one in found):
            raise NotServed("decimals are Spark's")
        kinds = {self.kind(one) for one in found} - {"null"}
        if len(kinds) != 1:
            raise NotServed("CASE of one kind of values only")
        return kinds.pop()

    def _only(self, node: exp.Expr, kind: Kind) -> Kind:
        if self.kind(node) != kind:
            raise NotServed(f"{kind}s only")
        return kind

    def _same(self, left: exp.Expr, right: exp.Expr, result: Kind) -> Kind:
        if self.kind(left) != self.kind(right):
            raise NotServed("comparisons of one kind only")
        return result
