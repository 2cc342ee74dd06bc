"""Expressions of plain queries, written with all types explicit, their constants taken out. Pure."""

from dataclasses import replace
from typing import Any

from sqlglot import exp

from recall.query.plain.model import Aggregate, Columns, Kind, NotPlain, Value, Window, Words

# Numbers from narrow to wide.
_WIDTHS: tuple[Kind, ...] = ("int", "bigint", "double")
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
_ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/", exp.Mod: "%"}
AGGREGATES = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)


class Expressions:
    """Those of one SELECT over a table with some columns.

    `constants`: those found so far; they are columns of the table `home` where they are `shared`.
    """

    def __init__(self, words: Words, alias: str, columns: Columns, shared: bool) -> None:
        self._words = words
        self._shared = shared
        self.alias = alias
        self.columns = columns
        self.constants: list[tuple[Kind, Any]] = []
        self.home = "_c"
        self._grouped: dict[str, Value] | None = None
        self._window: Window | None = None

    def group(self, held: dict[str, Value], window: Window) -> None:
        """From here on expressions are about groups by a window; `held`: what can be named, by its text."""
        self._grouped, self._window = held, window

    @property
    def grouped(self) -> bool:
        """Whether they are."""
        return self._grouped is not None

    def value(self, node: exp.Expr) -> Value:
        """An expression. Raises `NotPlain`, as do all here."""
        if isinstance(node, exp.Paren):
            inner = self.value(node.this)
            return inner if inner.literal is not None else replace(inner, sql=f"({inner.sql})")
        if self._grouped is not None and (held := self._after(node)) is not None:
            return held
        if isinstance(node, exp.Column):
            return self._named(node)
        if isinstance(node, exp.Literal):
            return _literal(node, "")
        if isinstance(node, exp.Neg):
            if isinstance(node.this, exp.Literal) and not node.this.is_string:
                return _literal(node.this, "-")
            inner = self._number(node.this)
            return Value(f"(-{inner.sql})", inner.kind)
        if isinstance(node, exp.Boolean):
            return Value("true" if node.this else "false", "boolean")
        if type(node) in _ARITHMETIC:
            return self._arithmetic(node, _ARITHMETIC[type(node)])
        return Value(self._logic(node), "boolean")

    def _after(self, node: exp.Expr) -> Value | None:
        """What stands for a group: a key, an aggregate, a border of the window."""
        assert self._grouped is not None and self._window is not None
        if isinstance(node, AGGREGATES):
            return self._grouped[text(node)]
        if isinstance(node, exp.Column):
            if node.table.lower() == "window" and self.alias.lower() != "window":
                if node.name.lower() not in ("start", "end"):
                    raise NotPlain("window")
                return Value(self._words.border("_g._w", node.name.lower(), self._window), "timestamp")
            key = self._grouped.get(self._named(node).sql)
            if key is None:
                raise NotPlain("a column that is not grouped by")
            return key
        return None

    def _named(self, node: exp.Column) -> Value:
        if node.db or (node.table and node.table.lower() != self.alias.lower()):
            raise NotPlain("a column")
        return self.column(node.name)

    def column(self, name: str) -> Value:
        """A column of the table."""
        kind = self.columns.get(name.lower())
        if kind is None:
            raise NotPlain(f"column {name} is of another type")
        return Value(f"{self._words.name(self.alias)}.{self._words.name(name.lower())}", kind)

    def condition(self, node: exp.Expr) -> str:
        """What is true or false."""
        value = self.value(node)
        if value.kind != "boolean":
            raise NotPlain("a condition")
        return value.sql

    def _logic(self, node: exp.Expr) -> str:
        if isinstance(node, exp.And | exp.Or):
            word = "AND" if isinstance(node, exp.And) else "OR"
            return f"({self.condition(node.left)} {word} {self.condition(node.right)})"
        if isinstance(node, exp.Not):
            return f"(NOT {self.condition(node.this)})"
        if type(node) in _COMPARISONS:
            return self._compared(node.this, _COMPARISONS[type(node)], node.expression)
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            low, high = node.args["low"], node.args["high"]
            return f"({self._compared(node.this, '>=', low)} AND {self._compared(node.this, '<=', high)})"
        if (
            isinstance(node, exp.In)
            and node.expressions
            and not {n for n, v in node.args.items() if v}
            - {
                "this",
                "expressions",
            }
        ):
            return f"({' OR '.join(self._compared(node.this, '=', one) for one in node.expressions)})"
        if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
            value = self.value(node.this)
            if value.literal is None:
                return f"({value.sql} IS NULL)"
        raise NotPlain(f"{node.sql(dialect='spark')[:80]} is left to Spark")

    def _compared(self, left: exp.Expr, word: str, right: exp.Expr) -> str:
        one, other = self.value(left), self.value(right)
        kind = _common(one, other)
        if kind == "boolean" and word not in ("=", "<>"):
            raise NotPlain("order of booleans")
        return f"({self.typed(one, kind)} {word} {self.typed(other, kind)})"

    def _arithmetic(self, node: exp.Expr, word: str) -> Value:
        one, other = self._number(node.this), self._number(node.expression)
        kind = _common(one, other)
        if word == "/":
            kind = "double"
        elif word == "%" and kind == "double":
            raise NotPlain("remainders of fractions")
        left, right = self.typed(one, kind), self.typed(other, kind)
        if word in "/%":
            # Spark refuses to divide by zero.
            if other.literal is None:
                raise NotPlain("a divisor that may be zero")
            if float(other.literal) == 0:
                raise NotPlain("a divisor of zero")
        return Value(f"({left} {word} {right})", kind)

    def _number(self, node: exp.Expr) -> Value:
        value = self.value(node)
        if value.kind not in (*_WIDTHS, "decimal"):
            raise NotPlain("numbers only")
        return value

    def aggregate(self, node: exp.Expr) -> Aggregate:
        """An aggregate. Raises `NotPlain`."""
        if {name for name, value in node.args.items() if value} - {"this", "big_int"}:
            raise NotPlain("an aggregate")
        inner = node.this
        if isinstance(node, exp.Count):
            if isinstance(inner, exp.Star):
                return Aggregate("count", "*", Value("count(*)", "bigint"))
            if isinstance(inner, exp.Distinct):
                (only,) = inner.expressions if len(inner.expressions) == 1 else (exp.Null(),)
                value = self.value(only)
                if value.literal is not None or value.kind == "double":
                    raise NotPlain("distinct fractions")
                return Aggregate("count_distinct", value.sql, Value(f"count(DISTINCT {value.sql})", "bigint"))
            value = self.value(inner)
            if value.literal is not None:
                raise NotPlain("a constant")
            return Aggregate("count", value.sql, Value(f"count({value.sql})", "bigint"))
        value = self.value(inner)
        if value.literal is not None or value.kind == "decimal":
            raise NotPlain("a constant")
        if isinstance(node, exp.Min | exp.Max):
            return Aggregate(node.key, value.sql, Value(f"{node.key}({value.sql})", value.kind))
        if value.kind not in _WIDTHS:
            raise NotPlain("numbers only")
        if isinstance(node, exp.Avg):
            number = self.typed(value, "double")
            return Aggregate("avg", number, Value(f"avg({number})", "double"))
        total: Kind = "double" if value.kind == "double" else "bigint"
        return Aggregate("sum", value.sql, Value(f"CAST(sum({value.sql}) AS {total.upper()})", total))

    def typed(self, value: Value, kind: Kind) -> str:
        """The value as one of a kind; a constant finds its place in the table."""
        if value.literal is None:
            return value.sql if value.kind == kind else f"CAST({value.sql} AS {kind.upper()})"
        if self._shared:
            self.constants.append((kind, _python(value.literal, kind)))
            return f"{self.home}.p{len(self.constants) - 1}"
        if kind == "string":
            return f"'{value.literal}'"
        return f"CAST('{value.literal}' AS DOUBLE)" if kind == "double" else f"CAST({value.literal} AS {kind.upper()})"


def _literal(node: exp.Literal, sign: str) -> Value:
    text = sign + node.this
    if node.is_string:
        if any(letter in text for letter in "\\'\0"):
            raise NotPlain("a text with escapes")
        return Value("", "string", text)
    if node.is_int:
        number = int(text)
        if not -(1 << 63) <= number < 1 << 63:
            raise NotPlain("a large number")
        return Value("", "int" if -(1 << 31) <= number < 1 << 31 else "bigint", text)
    return Value("", "double" if "e" in text.lower() else "decimal", text)


def _python(text: str, kind: Kind) -> Any:
    if kind in ("int", "bigint"):
        return int(text)
    return float(text) if kind == "double" else text


def _common(one: Value, other: Value) -> Kind:
    """The kind in which two values meet; at most one of them is a constant."""
    if one.literal is not None and other.literal is not None:
        raise NotPlain("constants only")
    kinds = {one.kind, other.kind}
    if kinds == {"decimal", "double"}:
        return "double"
    if kinds <= set(_WIDTHS):
        return max(kinds, key=_WIDTHS.index)
    if len(kinds) == 1 and "decimal" not in kinds:
        return one.kind
    raise NotPlain("comparisons of one kind only")


def text(node: exp.Expr) -> str:
    """A text by which a part is found again."""
    return node.sql(dialect="spark", normalize_functions="lower")
