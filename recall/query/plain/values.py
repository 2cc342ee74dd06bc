"""Expressions of plain queries, written with all types explicit, their constants taken out. Pure."""

from dataclasses import replace
from typing import Any

from sqlglot import exp

from recall.errors import NotPlain
from recall.query.plain.model import (
    PlainAggregate,
    PlainColumns,
    PlainType,
    SqlDialect,
    TypedExpression,
    Window,
)

# Numbers from narrow to wide.
_NUMERIC_TYPES: tuple[PlainType, ...] = ("int", "bigint", "double")
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_ARITHMETIC: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
}
AGGREGATES = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)


class ExpressionWriter:
    """Those of one SELECT over a table with some columns.

    `constants`: those found so far; they are columns of the table `home` where they are `shared`.
    """

    def __init__(
        self, dialect: SqlDialect, alias: str, columns: PlainColumns, parameterized: bool
    ) -> None:
        self._dialect = dialect
        self._parameterized = parameterized
        self.alias = alias
        self.columns = columns
        self.constants: list[tuple[PlainType, Any]] = []
        self.constants_alias = "_c"
        self._group_values: dict[str, TypedExpression] | None = None
        self._window: Window | None = None

    def enter_groups(self, values_by_text: dict[str, TypedExpression], window: Window) -> None:
        """From here on expressions are about groups by a window; `held`: what can be named, by its text."""
        self._group_values, self._window = values_by_text, window

    @property
    def is_grouped(self) -> bool:
        """Whether they are."""
        return self._group_values is not None

    def write(self, node: exp.Expr) -> TypedExpression:
        """An expression. Raises `NotPlain`, as do all here."""
        if isinstance(node, exp.Paren):
            inner = self.write(node.this)
            return inner if inner.literal is not None else replace(inner, sql=f"({inner.sql})")
        if self._group_values is not None and (held := self._write_in_group(node)) is not None:
            return held
        if isinstance(node, exp.Column):
            return self._write_column(node)
        if isinstance(node, exp.Literal):
            return _parse_literal(node, "")
        if isinstance(node, exp.Neg):
            if isinstance(node.this, exp.Literal) and not node.this.is_string:
                return _parse_literal(node.this, "-")
            inner = self._write_number(node.this)
            return TypedExpression(f"(-{inner.sql})", inner.type)
        if isinstance(node, exp.Boolean):
            return TypedExpression("true" if node.this else "false", "boolean")
        if type(node) in _ARITHMETIC:
            return self._write_arithmetic(node, _ARITHMETIC[type(node)])
        return TypedExpression(self._write_predicate(node), "boolean")

    def _write_in_group(self, node: exp.Expr) -> TypedExpression | None:
        """What stands for a group: a key, an aggregate, a border of the window."""
        assert self._group_values is not None and self._window is not None
        if isinstance(node, AGGREGATES):
            return self._group_values[normalized_text(node)]
        if isinstance(node, exp.Column):
            if node.table.lower() == "window" and self.alias.lower() != "window":
                if node.name.lower() not in ("start", "end"):
                    raise NotPlain("window")
                return TypedExpression(
                    self._dialect.window_bound("_g._w", node.name.lower(), self._window),
                    "timestamp",
                )
            key = self._group_values.get(self._write_column(node).sql)
            if key is None:
                raise NotPlain("a column that is not grouped by")
            return key
        return None

    def _write_column(self, node: exp.Column) -> TypedExpression:
        if node.db or (node.table and node.table.lower() != self.alias.lower()):
            raise NotPlain("a column")
        return self.resolve_column(node.name)

    def resolve_column(self, name: str) -> TypedExpression:
        """A column of the table."""
        kind = self.columns.get(name.lower())
        if kind is None:
            raise NotPlain(f"column {name} is of another type")
        return TypedExpression(
            f"{self._dialect.quote(self.alias)}.{self._dialect.quote(name.lower())}", kind
        )

    def write_condition(self, node: exp.Expr) -> str:
        """What is true or false."""
        value = self.write(node)
        if value.type != "boolean":
            raise NotPlain("a condition")
        return value.sql

    def _write_predicate(self, node: exp.Expr) -> str:
        if isinstance(node, exp.And | exp.Or):
            word = "AND" if isinstance(node, exp.And) else "OR"
            return f"({self.write_condition(node.left)} {word} {self.write_condition(node.right)})"
        if isinstance(node, exp.Not):
            return f"(NOT {self.write_condition(node.this)})"
        if type(node) in _COMPARISONS:
            return self._write_comparison(node.this, _COMPARISONS[type(node)], node.expression)
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            low, high = node.args["low"], node.args["high"]
            return f"({self._write_comparison(node.this, '>=', low)} AND {self._write_comparison(node.this, '<=', high)})"
        if (
            isinstance(node, exp.In)
            and node.expressions
            and not {n for n, v in node.args.items() if v}
            - {
                "this",
                "expressions",
            }
        ):
            return f"({' OR '.join(self._write_comparison(node.this, '=', one) for one in node.expressions)})"
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            value = self.write(node.this)
            if value.literal is None:
                return f"({value.sql} IS NULL)"
        raise NotPlain(f"{node.sql(dialect='spark')[:80]} is left to Spark")

    def _write_comparison(self, left: exp.Expr, word: str, right: exp.Expr) -> str:
        one, other = self.write(left), self.write(right)
        kind = _common_type(one, other)
        if kind == "boolean" and word not in ("=", "<>"):
            raise NotPlain("order of booleans")
        return f"({self.cast_to(one, kind)} {word} {self.cast_to(other, kind)})"

    def _write_arithmetic(self, node: exp.Expr, word: str) -> TypedExpression:
        one, other = self._write_number(node.this), self._write_number(node.expression)
        kind = _common_type(one, other)
        if word == "/":
            kind = "double"
        elif word == "%" and kind == "double":
            raise NotPlain("remainders of fractions")
        left, right = self.cast_to(one, kind), self.cast_to(other, kind)
        if word in "/%":
            # Spark refuses to divide by zero.
            if other.literal is None:
                raise NotPlain("a divisor that may be zero")
            if float(other.literal) == 0:
                raise NotPlain("a divisor of zero")
        return TypedExpression(f"({left} {word} {right})", kind)

    def _write_number(self, node: exp.Expr) -> TypedExpression:
        value = self.write(node)
        if value.type not in (*_NUMERIC_TYPES, "decimal"):
            raise NotPlain("numbers only")
        return value

    def write_aggregate(self, node: exp.Expr) -> PlainAggregate:
        """An aggregate. Raises `NotPlain`."""
        if {name for name, value in node.args.items() if value} - {"this", "big_int"}:
            raise NotPlain("an aggregate")
        inner = node.this
        if isinstance(node, exp.Count):
            if isinstance(inner, exp.Star):
                return PlainAggregate("count", "*", TypedExpression("count(*)", "bigint"))
            if isinstance(inner, exp.Distinct):
                (only,) = inner.expressions if len(inner.expressions) == 1 else (exp.Null(),)
                value = self.write(only)
                if value.literal is not None or value.type == "double":
                    raise NotPlain("distinct fractions")
                return PlainAggregate(
                    "count_distinct",
                    value.sql,
                    TypedExpression(f"count(DISTINCT {value.sql})", "bigint"),
                )
            value = self.write(inner)
            if value.literal is not None:
                raise NotPlain("a constant")
            return PlainAggregate(
                "count", value.sql, TypedExpression(f"count({value.sql})", "bigint")
            )
        value = self.write(inner)
        if value.literal is not None or value.type == "decimal":
            raise NotPlain("a constant")
        if isinstance(node, exp.Min | exp.Max):
            return PlainAggregate(
                node.key, value.sql, TypedExpression(f"{node.key}({value.sql})", value.type)
            )
        if value.type not in _NUMERIC_TYPES:
            raise NotPlain("numbers only")
        if isinstance(node, exp.Avg):
            number = self.cast_to(value, "double")
            return PlainAggregate("avg", number, TypedExpression(f"avg({number})", "double"))
        total: PlainType = "double" if value.type == "double" else "bigint"
        return PlainAggregate(
            "sum", value.sql, TypedExpression(f"CAST(sum({value.sql}) AS {total.upper()})", total)
        )

    def cast_to(self, value: TypedExpression, target_type: PlainType) -> str:
        """The value as one of a kind; a constant finds its place in the table."""
        if value.literal is None:
            return (
                value.sql
                if value.type == target_type
                else f"CAST({value.sql} AS {target_type.upper()})"
            )
        if self._parameterized:
            self.constants.append((target_type, _python_value(value.literal, target_type)))
            return f"{self.constants_alias}.p{len(self.constants) - 1}"
        if target_type == "string":
            return f"'{value.literal}'"
        return (
            f"CAST('{value.literal}' AS DOUBLE)"
            if target_type == "double"
            else f"CAST({value.literal} AS {target_type.upper()})"
        )


def _parse_literal(node: exp.Literal, sign: str) -> TypedExpression:
    text = sign + node.this
    if node.is_string:
        if any(letter in text for letter in "\\'\0"):
            raise NotPlain("a text with escapes")
        return TypedExpression("", "string", text)
    if node.is_int:
        number = int(text)
        if not -(1 << 63) <= number < 1 << 63:
            raise NotPlain("a large number")
        return TypedExpression("", "int" if -(1 << 31) <= number < 1 << 31 else "bigint", text)
    return TypedExpression("", "double" if "e" in text.lower() else "decimal", text)


def _python_value(text: str, kind: PlainType) -> Any:
    if kind in ("int", "bigint"):
        return int(text)
    return float(text) if kind == "double" else text


def _common_type(one: TypedExpression, other: TypedExpression) -> PlainType:
    """The kind in which two values meet; at most one of them is a constant."""
    if one.literal is not None and other.literal is not None:
        raise NotPlain("constants only")
    kinds = {one.type, other.type}
    if kinds == {"decimal", "double"}:
        return "double"
    if kinds <= set(_NUMERIC_TYPES):
        return max(kinds, key=_NUMERIC_TYPES.index)
    if len(kinds) == 1 and "decimal" not in kinds:
        return one.type
    raise NotPlain("comparisons of one kind only")


def normalized_text(node: exp.Expr) -> str:
    """A text by which a part is found again."""
    return node.sql(dialect="spark", normalize_functions="lower")
