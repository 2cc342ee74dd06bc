"""Rules in a part of SQL that means the same in Spark and in DuckDB, as queries with their constants as data. Pure.

A query in this part is one SELECT over one stream, or over such a SELECT, that filters and projects, or that groups by
windows and columns: plain types, comparisons, AND, OR, NOT, IN, BETWEEN, IS NULL, + - * / %, and the common aggregates.
It is written anew, with every name qualified, every type explicit, and the constants of its outermost SELECT taken out
into a table, so that queries that differ in constants only have one text. `tests/contract/test_live_engines.py` holds
both engines and Spark's own reading of the rules against each other. Whatever is not listed here is `NotPlain`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from sqlglot import exp

from recall.query.shape import Unsupported, is_window, spans

Kind = Literal["int", "bigint", "double", "string", "boolean", "timestamp", "decimal"]

KINDS: frozenset[str] = frozenset(("int", "bigint", "double", "string", "boolean", "timestamp"))
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
_AGGREGATES = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max)


class NotPlain(Exception):
    """A query, or a part of it, whose meaning is left to Spark."""


class Words(Protocol):
    """What engines say differently."""

    def name(self, name: str) -> str:
        """A quoted identifier."""

    def windowed(self, source: str, alias: str, time: str, window: tuple[int, int, int]) -> tuple[str, str]:
        """FROM with each row in each of its windows (size, slide, offset, microseconds), and what to group by."""

    def border(self, column: str, side: str, window: tuple[int, int, int]) -> str:
        """The `start` or `end` of a window that stands in a column."""


@dataclass(frozen=True)
class Plain:
    """A query whose constants are data. Queries with equal `text`, `kinds` and `names` have one shape.

    `text`: parts between which the source, then the table of constants belong; that table has `rule` and a column
    `p<n>` for each constant. Result: `rule`, `ts`, and `c<n>` for the attributes, named `names`, of types `types`.
    """

    text: tuple[str, str, str]
    source: str
    nested: bool  # the source is a query, not a table
    streams: frozenset[str]
    kinds: tuple[Kind, ...]
    names: tuple[str, ...]
    types: tuple[Kind, ...]
    constants: tuple[Any, ...] = field(compare=False)
    windowed: bool = False

    def sql(self, constants: str, source: str | None = None) -> str:
        """The query over a table of constants; `source`: where the rows of the source are, if they are made."""
        head, middle, tail = self.text
        return head + (self.source if source is None else source) + middle + constants + tail


@dataclass(frozen=True)
class _Value:
    sql: str
    kind: Kind
    literal: str | None = None


@dataclass(frozen=True)
class _Source:
    sql: str
    columns: Mapping[str, Kind]
    streams: frozenset[str]
    nested: bool


def plain(query: exp.Query, tables: Mapping[str, Mapping[str, str]], types: Mapping[str, str], words: Words) -> Plain:
    """The query over physical `tables` (columns with types), whose attributes have some `types`. Raises `NotPlain`.

    Its types are as Spark has found them: where they would come out otherwise here, it is not plain.
    """
    if not isinstance(query, exp.Select):
        raise NotPlain("it is not one SELECT")
    writer = _Writer(words, tables, shared=True)
    outputs, parts, source = writer.select(query)
    made = {name.lower(): value for name, value in outputs}
    if len(made) != len(outputs) or set(made) != {"ts", *(name.lower() for name in types)}:
        raise NotPlain("an output without a name of its own")
    if made["ts"].kind != "timestamp" or any(made[name.lower()].kind != kind for name, kind in types.items()):
        raise NotPlain("outputs of other types than int, bigint, double, string, boolean and timestamp")
    columns = [f"{made['ts'].sql} AS ts", *(f"{made[name.lower()].sql} AS c{i}" for i, name in enumerate(types))]
    head = f"SELECT {writer.rule} AS rule, {', '.join(columns)} {parts[0]}"
    return Plain(
        (head, parts[1], parts[2]),
        source.sql,
        source.nested,
        source.streams,
        tuple(kind for kind, _ in writer.constants),
        tuple(types),
        tuple(made[name.lower()].kind for name in types),
        tuple(value for _, value in writer.constants),
        query.args.get("group") is not None,
    )


class _Writer:
    """Writes one SELECT; `shared`: its constants are columns of a table."""

    def __init__(self, words: Words, tables: Mapping[str, Mapping[str, str]], shared: bool) -> None:
        self._words = words
        self._tables = tables
        self._shared = shared
        self.constants: list[tuple[Kind, Any]] = []
        self._home = "_c"  # where constants are found
        self.rule = "_c.rule"
        self._alias = ""
        self._columns: Mapping[str, Kind] = {}
        self._grouped: dict[str, _Value] | None = None  # what can be named after grouping, by text
        self._window: tuple[int, int, int] | None = None

    def select(self, select: exp.Select) -> tuple[list[tuple[str, _Value]], tuple[str, str, str], _Source]:
        """Outputs, the text around the source and the table of constants, from FROM on, and the source."""
        wanted = {"expressions", "from_", "where", "group", "having"}
        if {name for name, value in select.args.items() if value} - wanted:
            raise NotPlain("it has more than SELECT, FROM, WHERE, GROUP BY and HAVING")
        table = select.args["from_"].this
        source = self._source(table)
        self._alias, self._columns = table.alias_or_name, source.columns
        if select.args.get("group") is None:
            if select.args.get("having") is not None:
                raise NotPlain("HAVING without groups")
            return self._filtered(select, source)
        return self._aggregated(select, source)

    def _filtered(
        self, select: exp.Select, source: _Source
    ) -> tuple[list[tuple[str, _Value]], tuple[str, str, str], _Source]:
        where = self._where(select.args.get("where"))
        outputs = self._outputs(select)
        constants, tail = self._join(where)
        return outputs, (" FROM ", f" AS {self._words.name(self._alias)}{constants}", tail), source

    def _aggregated(
        self, select: exp.Select, source: _Source
    ) -> tuple[list[tuple[str, _Value]], tuple[str, str, str], _Source]:
        group = select.args["group"]
        if {name for name, value in group.args.items() if value} - {"expressions"}:
            raise NotPlain("groups of groups")
        windows = [node for node in group.expressions if is_window(node)]
        if len(windows) != 1:
            raise NotPlain("groups without one window")
        time, self._window = self._spans(windows[0])
        where = self._where(select.args.get("where"))
        inner: list[str] = []
        grouped: dict[str, _Value] = {}
        keys = [self._value(node) for node in group.expressions if not is_window(node)]
        if any(key.literal is not None or key.kind == "double" for key in keys):
            raise NotPlain("groups by constants or fractions")
        for number, key in enumerate(keys):
            inner.append(f"{key.sql} AS k{number}")
            grouped[key.sql] = _Value(f"_g.k{number}", key.kind)
        nodes = [*select.expressions, *filter(None, [select.args.get("having")])]
        for number, node in enumerate(one for part in nodes for one in part.find_all(*_AGGREGATES)):
            value = self._aggregate(node)
            inner.append(f"{value.sql} AS a{number}")
            grouped[_text(node)] = _Value(f"_g.a{number}", value.kind)
        early = len(self.constants)  # needed before grouping
        name = self._words.name(self._alias)
        from_, border = self._words.windowed("\0", name, f"{name}.{self._words.name(time)}", self._window)
        before, after = from_.split("\0")
        by = [border, *(key.sql for key in keys)]
        self._grouped = grouped
        if not early:
            having, outputs = self._where(select.args.get("having")), self._outputs(select)
            rows = f"SELECT {', '.join([f'{border} AS _w', *inner])} FROM {before}"
            tail = f"{where} GROUP BY {', '.join(by)}) AS _g"
            join, end = self._join(having)
            return outputs, (f" FROM ({rows}", f"{after}{tail}{join}", end), source
        carried = ["rule", *(f"p{number}" for number in range(early))]
        join, _ = self._join("")
        self._home, self.rule = "_g", "_g.rule"
        having, outputs = self._where(select.args.get("having")), self._outputs(select)
        carried += [f"p{number}" for number in range(early, len(self.constants))]
        mine = [f"_c.{column}" for column in carried]
        rows = f"SELECT {', '.join([*mine, f'{border} AS _w', *inner])} FROM {before}"
        tail = f" AS _c{where} GROUP BY {', '.join([*mine, *by])}) AS _g{having}"
        return outputs, (f" FROM ({rows}", f"{after}{join}", tail), source

    def _join(self, where: str) -> tuple[str, str]:
        return (" CROSS JOIN ", f" AS _c{where}") if self._shared else (where, "")

    def _source(self, table: exp.Expr) -> _Source:
        if isinstance(table, exp.Subquery) and isinstance(table.this, exp.Select):
            writer = _Writer(self._words, self._tables, shared=False)
            outputs, (head, middle, tail), source = writer.select(table.this)
            columns = ", ".join(f"{value.sql} AS {self._words.name(name)}" for name, value in outputs)
            kinds = {name.lower(): value.kind for name, value in outputs}
            if len(kinds) != len(outputs) or "" in kinds:
                raise NotPlain("an output without a name of its own")
            sql = f"(SELECT {columns}{head}{source.sql}{middle}{tail})"
            return _Source(sql, kinds, source.streams, True)
        if isinstance(table, exp.Table) and table.name in self._tables:
            known: dict[str, Kind] = {}
            for name, kind in self._tables[table.name].items():
                if kind in KINDS:
                    known[name.lower()] = kind  # type: ignore[assignment]
            return _Source(self._words.name(table.name), known, frozenset({table.name}), False)
        raise NotPlain("it reads something else than one stream")

    def _spans(self, node: exp.Expr) -> tuple[str, tuple[int, int, int]]:
        arguments = node.expressions if isinstance(node, exp.Anonymous) else list(node.iter_expressions())
        try:
            size, slide, start = spans(node, arguments[1:])
        except Unsupported as error:
            raise NotPlain("window") from error
        if self._value(arguments[0]).kind != "timestamp":
            raise NotPlain("window")
        return arguments[0].name.lower(), (size, slide, start)

    def _where(self, node: exp.Expr | None) -> str:
        return "" if node is None else f" WHERE {self._condition(node.this)}"

    def _outputs(self, select: exp.Select) -> list[tuple[str, _Value]]:
        outputs: list[tuple[str, _Value]] = []
        for node in select.expressions:
            if isinstance(node, exp.Star):
                if self._grouped is not None or any(node.args.values()):
                    raise NotPlain("a star beside groups")
                outputs += [(name, self._column(name)) for name in self._columns]
                continue
            value = self._value(node.unalias())
            if value.literal is not None:
                if value.kind == "decimal":
                    raise NotPlain("a decimal number as output")
                value = _Value(self._as(value, value.kind), value.kind)
            outputs.append((node.alias_or_name, value))
        return outputs

    # Expressions

    def _value(self, node: exp.Expr) -> _Value:
        if isinstance(node, exp.Paren):
            inner = self._value(node.this)
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
            return _Value(f"(-{inner.sql})", inner.kind)
        if isinstance(node, exp.Boolean):
            return _Value("true" if node.this else "false", "boolean")
        if type(node) in _ARITHMETIC:
            return self._arithmetic(node, _ARITHMETIC[type(node)])
        return _Value(self._logic(node), "boolean")

    def _after(self, node: exp.Expr) -> _Value | None:
        """What stands for a group: a key, an aggregate, a border of the window."""
        assert self._grouped is not None and self._window is not None
        if isinstance(node, _AGGREGATES):
            return self._grouped[_text(node)]
        if isinstance(node, exp.Column):
            if node.table.lower() == "window" and self._alias.lower() != "window":
                if node.name.lower() not in ("start", "end"):
                    raise NotPlain("window")
                return _Value(self._words.border("_g._w", node.name.lower(), self._window), "timestamp")
            key = self._grouped.get(self._named(node).sql)
            if key is None:
                raise NotPlain("a column that is not grouped by")
            return key
        return None

    def _named(self, node: exp.Column) -> _Value:
        if node.db or (node.table and node.table.lower() != self._alias.lower()):
            raise NotPlain("a column")
        return self._column(node.name)

    def _column(self, name: str) -> _Value:
        kind = self._columns.get(name.lower())
        if kind is None:
            raise NotPlain(f"column {name} is of another type")
        return _Value(f"{self._words.name(self._alias)}.{self._words.name(name.lower())}", kind)

    def _condition(self, node: exp.Expr) -> str:
        value = self._value(node)
        if value.kind != "boolean":
            raise NotPlain("a condition")
        return value.sql

    def _logic(self, node: exp.Expr) -> str:
        if isinstance(node, exp.And | exp.Or):
            word = "AND" if isinstance(node, exp.And) else "OR"
            return f"({self._condition(node.left)} {word} {self._condition(node.right)})"
        if isinstance(node, exp.Not):
            return f"(NOT {self._condition(node.this)})"
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
            value = self._value(node.this)
            if value.literal is None:
                return f"({value.sql} IS NULL)"
        raise NotPlain(f"{node.sql(dialect='spark')[:80]} is left to Spark")

    def _compared(self, left: exp.Expr, word: str, right: exp.Expr) -> str:
        one, other = self._value(left), self._value(right)
        kind = _common(one, other)
        if kind == "boolean" and word not in ("=", "<>"):
            raise NotPlain("order of booleans")
        return f"({self._as(one, kind)} {word} {self._as(other, kind)})"

    def _arithmetic(self, node: exp.Expr, word: str) -> _Value:
        one, other = self._number(node.this), self._number(node.expression)
        kind = _common(one, other)
        if word == "/":
            kind = "double"
        elif word == "%" and kind == "double":
            raise NotPlain("remainders of fractions")
        left, right = self._as(one, kind), self._as(other, kind)
        if word in "/%":
            # Spark refuses to divide by zero.
            if other.literal is None:
                raise NotPlain("a divisor that may be zero")
            if float(other.literal) == 0:
                raise NotPlain("a divisor of zero")
        return _Value(f"({left} {word} {right})", kind)

    def _number(self, node: exp.Expr) -> _Value:
        value = self._value(node)
        if value.kind not in (*_WIDTHS, "decimal"):
            raise NotPlain("numbers only")
        return value

    def _aggregate(self, node: exp.Expr) -> _Value:
        if {name for name, value in node.args.items() if value} - {"this", "big_int"}:
            raise NotPlain("an aggregate")
        inner = node.this
        if isinstance(node, exp.Count):
            if isinstance(inner, exp.Star):
                return _Value("count(*)", "bigint")
            if isinstance(inner, exp.Distinct):
                (only,) = inner.expressions if len(inner.expressions) == 1 else (exp.Null(),)
                value = self._value(only)
                if value.literal is not None or value.kind == "double":
                    raise NotPlain("distinct fractions")
                return _Value(f"count(DISTINCT {value.sql})", "bigint")
            value = self._value(inner)
            if value.literal is not None:
                raise NotPlain("a constant")
            return _Value(f"count({value.sql})", "bigint")
        value = self._value(inner)
        if value.literal is not None or value.kind == "decimal":
            raise NotPlain("a constant")
        if isinstance(node, exp.Min | exp.Max):
            return _Value(f"{node.key}({value.sql})", value.kind)
        if value.kind not in _WIDTHS:
            raise NotPlain("numbers only")
        if isinstance(node, exp.Avg):
            return _Value(f"avg({self._as(value, 'double')})", "double")
        total: Kind = "double" if value.kind == "double" else "bigint"
        return _Value(f"CAST(sum({value.sql}) AS {total.upper()})", total)

    def _as(self, value: _Value, kind: Kind) -> str:
        """The value as one of a kind; a constant finds its place in the table."""
        if value.literal is None:
            return value.sql if value.kind == kind else f"CAST({value.sql} AS {kind.upper()})"
        if self._shared:
            self.constants.append((kind, _python(value.literal, kind)))
            return f"{self._home}.p{len(self.constants) - 1}"
        if kind == "string":
            return f"'{value.literal}'"
        return f"CAST('{value.literal}' AS DOUBLE)" if kind == "double" else f"CAST({value.literal} AS {kind.upper()})"


def _literal(node: exp.Literal, sign: str) -> _Value:
    text = sign + node.this
    if node.is_string:
        if any(letter in text for letter in "\\'\0"):
            raise NotPlain("a text with escapes")
        return _Value("", "string", text)
    if node.is_int:
        number = int(text)
        if not -(1 << 63) <= number < 1 << 63:
            raise NotPlain("a large number")
        return _Value("", "int" if -(1 << 31) <= number < 1 << 31 else "bigint", text)
    return _Value("", "double" if "e" in text.lower() else "decimal", text)


def _python(text: str, kind: Kind) -> Any:
    if kind in ("int", "bigint"):
        return int(text)
    return float(text) if kind == "double" else text


def _common(one: _Value, other: _Value) -> Kind:
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


def _text(node: exp.Expr) -> str:
    return node.sql(dialect="spark", normalize_functions="lower")
