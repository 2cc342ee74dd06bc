"""SELECTs of plain queries, written anew; sliding windows in two steps as well. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

from sqlglot import exp

from recall.errors import NotPlain
from recall.query.plain.model import (
    PLAIN_TYPE_NAMES,
    PaneDialect,
    PanedQuery,
    PlainAggregate,
    PlainColumns,
    PlainType,
    SqlDialect,
    TypedExpression,
    Window,
)
from recall.query.plain.values import AGGREGATES, ExpressionWriter, normalized_text
from recall.query.shape import Unsupported, is_window, parse_window, window_arguments

Outputs = list[tuple[str, TypedExpression]]


@dataclass(frozen=True)
class PlainSource:
    """What FROM names: a table, or a SELECT, which may group by windows."""

    sql: str
    columns: PlainColumns
    streams: frozenset[str]
    is_query: bool = False
    has_windows: bool = False
    paned_query: PanedQuery | None = None


@dataclass(frozen=True)
class RenderedSelect:
    """A SELECT. `parts`: from FROM on, the text before the source, up to the table of constants, and after it; of
    `paned` the merge begins at FROM, too.
    """

    outputs: Outputs
    text_parts: tuple[str, str, str]
    source: PlainSource
    has_windows: bool
    paned_query: PanedQuery | None


@dataclass(frozen=True)
class _WindowGroups:
    """Rows of a source grouped by windows and keys, columns `_w`, `k<n>`, `a<n>`; `carried`: what each group keeps of
    the table of constants, where constants are needed before grouping.
    """

    dialect: SqlDialect
    alias: str
    time: str
    constant_columns: Sequence[str]
    keys: Sequence[str]
    where: str

    def select_rows(self, window: Window, values: Sequence[str]) -> tuple[str, str, str]:
        """SELECT over rows, as text before the source, up to the table of constants, and after it."""
        from_, border = self.dialect.assign_windows(
            "\0", self.alias, f"{self.alias}.{self.time}", window
        )
        before, middle = from_.split("\0")
        carried = [f"_c.{column}" for column in self.constant_columns]
        keys = [f"{key} AS k{number}" for number, key in enumerate(self.keys)]
        head = f"SELECT {', '.join([*carried, f'{border} AS _w', *keys, *values])} FROM {before}"
        tail = f"{self.where} GROUP BY {', '.join([*carried, border, *self.keys])}"
        return (head, f"{middle} CROSS JOIN ", f" AS _c{tail}") if carried else (head, middle, tail)

    def select_panes(self, panes: PaneDialect, window: Window, values: Sequence[str]) -> str:
        """SELECT of the same over panes."""
        by = ["_start", *self.constant_columns, *(f"k{number}" for number in range(len(self.keys)))]
        return f"SELECT {', '.join(['_start AS _w', *by[1:], *values])} FROM {panes.assign_windows(window)} GROUP BY {', '.join(by)}"


class SelectWriter:
    """Writes one SELECT; `shared`: its constants are columns of a table."""

    def __init__(
        self, dialect: SqlDialect, tables: Mapping[str, Mapping[str, str]], parameterized: bool
    ) -> None:
        self._dialect = dialect
        self._tables = tables
        self._parameterized = parameterized
        self._expressions = ExpressionWriter(dialect, "", {}, parameterized)
        self.rule_column = "_c.rule"

    @property
    def constants(self) -> Sequence[tuple[PlainType, object]]:
        """Those that were taken out."""
        return self._expressions.constants

    def write(self, select: exp.Select) -> RenderedSelect:
        """The SELECT. Raises `NotPlain`."""
        wanted = {"expressions", "from_", "where", "group", "having"}
        if {name for name, value in select.args.items() if value} - wanted:
            raise NotPlain("it has more than SELECT, FROM, WHERE, GROUP BY and HAVING")
        table = select.args["from_"].this
        source = self._write_source(table)
        self._expressions.alias, self._expressions.columns = table.alias_or_name, source.columns
        if select.args.get("group") is not None:
            return self._write_aggregation(select, source)
        if select.args.get("having") is not None:
            raise NotPlain("HAVING without groups")
        return self._write_filter(select, source)

    def _write_filter(self, select: exp.Select, source: PlainSource) -> RenderedSelect:
        where = self._write_where(select.args.get("where"))
        outputs = self._write_outputs(select)
        join, tail = self._join_constants(where)
        middle = f" AS {self._dialect.quote(self._expressions.alias)}{join}"
        paned = source.paned_query
        if paned is not None:
            # Of a source without a table of constants the merge is one text.
            merge = (f" FROM {paned.merge[0]}{middle}", tail)
            paned = replace(paned, merge=merge if self._parameterized else ("".join(merge),))
        return RenderedSelect(outputs, (" FROM ", middle, tail), source, source.has_windows, paned)

    def _write_aggregation(self, select: exp.Select, source: PlainSource) -> RenderedSelect:
        expressions = self._expressions
        group = select.args["group"]
        if {name for name, value in group.args.items() if value} - {"expressions"}:
            raise NotPlain("groups of groups")
        windows = [node for node in group.expressions if is_window(node)]
        if len(windows) != 1:
            raise NotPlain("groups without one window")
        time, window = self._parse_window(windows[0])
        where = self._write_where(select.args.get("where"))
        keys = [expressions.write(node) for node in group.expressions if not is_window(node)]
        if any(key.literal is not None or key.type == "double" for key in keys):
            raise NotPlain("groups by constants or fractions")
        nodes = [*select.expressions, *filter(None, [select.args.get("having")])]
        found = [node for part in nodes for node in part.find_all(*AGGREGATES)]
        aggregates = [expressions.write_aggregate(node) for node in found]
        early = self._parameterized and len(self.constants) > 0  # some are needed before grouping
        if early:
            expressions.constants_alias, self.rule_column = "_g", "_g.rule"
        held = {key.sql: TypedExpression(f"_g.k{n}", key.type) for n, key in enumerate(keys)}
        for n, (node, one) in enumerate(zip(found, aggregates, strict=True)):
            held[normalized_text(node)] = TypedExpression(f"_g.a{n}", one.expression.type)
        expressions.enter_groups(held, window)
        having, outputs = self._write_where(select.args.get("having")), self._write_outputs(select)
        carried = (
            ["rule", *(f"p{number}" for number in range(len(self.constants)))] if early else []
        )
        name = self._dialect.quote(expressions.alias)
        groups = _WindowGroups(
            self._dialect,
            name,
            self._dialect.quote(time),
            carried,
            [key.sql for key in keys],
            where,
        )
        join, end = ("", having) if early else self._join_constants(having)
        head, middle, tail = groups.select_rows(
            window, [f"{one.expression.sql} AS a{n}" for n, one in enumerate(aggregates)]
        )
        if early:
            parts = (f" FROM ({head}", middle, f"{tail}) AS _g{end}")
        else:
            parts = (f" FROM ({head}", f"{middle}{tail}) AS _g{join}", end)
        paned = (
            None
            if source.has_windows
            else self._write_panes(groups, source, window, aggregates, (join, end))
        )
        return RenderedSelect(outputs, parts, source, True, paned)

    def _write_panes(
        self,
        groups: _WindowGroups,
        source: PlainSource,
        window: Window,
        aggregates: Sequence[PlainAggregate],
        after: tuple[str, str],
    ) -> PanedQuery | None:
        """Sliding windows over rows in two steps. `after`: the text up to the table of constants, and after it."""
        panes, (size, slide, offset) = self._dialect.pane_dialect, window
        if panes is None or size == slide:
            return None
        parts = [panes.partial_aggregates(one) for one in aggregates]
        names = [[f"a{n}_{place}" for place, _ in enumerate(part)] for n, part in enumerate(parts)]
        split = [
            f"{sql} AS {name}"
            for n, part in enumerate(parts)
            for sql, name in zip(part, names[n], strict=True)
        ]
        head, middle, tail = groups.select_rows((gcd(size, slide),) * 2 + (offset,), split)
        values = [
            f"{panes.merge_aggregate(one, names[n])} AS a{n}" for n, one in enumerate(aggregates)
        ]
        merge = f" FROM ({groups.select_panes(panes, window, values)}) AS _g{after[0]}"
        partial = (f"{head}{source.sql}{middle}", tail)
        return PanedQuery(
            min(source.streams),
            window,
            partial if groups.constant_columns else ("".join(partial),),
            (merge, after[1])
            if self._parameterized and not groups.constant_columns
            else (merge + after[1],),
        )

    def _join_constants(self, where: str) -> tuple[str, str]:
        return (" CROSS JOIN ", f" AS _c{where}") if self._parameterized else (where, "")

    def _write_source(self, table: exp.Expr) -> PlainSource:
        if isinstance(table, exp.Subquery) and isinstance(table.this, exp.Select):
            written = SelectWriter(self._dialect, self._tables, parameterized=False).write(
                table.this
            )
            head, middle, tail = written.text_parts
            columns = ", ".join(
                f"{value.sql} AS {self._dialect.quote(name)}" for name, value in written.outputs
            )
            kinds = {name.lower(): value.type for name, value in written.outputs}
            if len(kinds) != len(written.outputs) or "" in kinds:
                raise NotPlain("an output without a name of its own")
            source, paned = written.source, written.paned_query
            sql = f"(SELECT {columns}{head}{source.sql}{middle}{tail})"
            if paned is not None:
                paned = replace(paned, merge=(f"(SELECT {columns}{paned.merge[0]})",))
            return PlainSource(sql, kinds, source.streams, True, written.has_windows, paned)
        if isinstance(table, exp.Table) and table.name in self._tables:
            known: dict[str, PlainType] = {}
            for name, kind in self._tables[table.name].items():
                if kind in PLAIN_TYPE_NAMES:
                    known[name.lower()] = kind  # type: ignore[assignment]
            return PlainSource(self._dialect.quote(table.name), known, frozenset({table.name}))
        raise NotPlain("it reads something else than one stream")

    def _parse_window(self, node: exp.Expr) -> tuple[str, Window]:
        arguments = window_arguments(node)
        try:
            size, slide, start = parse_window(node, arguments[1:])
        except Unsupported as error:
            raise NotPlain("window") from error
        if self._expressions.write(arguments[0]).type != "timestamp":
            raise NotPlain("window")
        return arguments[0].name.lower(), (size, slide, start)

    def _write_where(self, node: exp.Expr | None) -> str:
        return "" if node is None else f" WHERE {self._expressions.write_condition(node.this)}"

    def _write_outputs(self, select: exp.Select) -> Outputs:
        expressions = self._expressions
        outputs: Outputs = []
        for node in select.expressions:
            if isinstance(node, exp.Star):
                if expressions.is_grouped or any(node.args.values()):
                    raise NotPlain("a star beside groups")
                outputs += [
                    (name, expressions.resolve_column(name)) for name in expressions.columns
                ]
                continue
            value = expressions.write(node.unalias())
            if value.literal is not None:
                if value.type == "decimal":
                    raise NotPlain("a decimal number as output")
                value = TypedExpression(expressions.cast_to(value, value.type), value.type)
            outputs.append((node.alias_or_name, value))
        return outputs
