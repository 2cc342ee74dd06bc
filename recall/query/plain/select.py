"""SELECTs of plain queries, written anew; sliding windows in two steps as well. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

from sqlglot import exp

from recall.query.plain.model import KINDS, Aggregate, Columns, Kind, NotPlain, Paned, PaneWords, Value, Window, Words
from recall.query.plain.values import AGGREGATES, Expressions, text
from recall.query.shape import Unsupported, arguments_of, is_window, spans

Outputs = list[tuple[str, Value]]


@dataclass(frozen=True)
class Source:
    """What FROM names: a table, or a SELECT, which may group by windows."""

    sql: str
    columns: Columns
    streams: frozenset[str]
    nested: bool = False
    windowed: bool = False
    paned: Paned | None = None


@dataclass(frozen=True)
class Written:
    """A SELECT. `parts`: from FROM on, the text before the source, up to the table of constants, and after it; of
    `paned` the merge begins at FROM, too.
    """

    outputs: Outputs
    parts: tuple[str, str, str]
    source: Source
    windowed: bool
    paned: Paned | None


@dataclass(frozen=True)
class _Groups:
    """Rows of a source grouped by windows and keys, columns `_w`, `k<n>`, `a<n>`; `carried`: what each group keeps of
    the table of constants, where constants are needed before grouping.
    """

    words: Words
    alias: str
    time: str
    carried: Sequence[str]
    keys: Sequence[str]
    where: str

    def rows(self, window: Window, values: Sequence[str]) -> tuple[str, str, str]:
        """SELECT over rows, as text before the source, up to the table of constants, and after it."""
        from_, border = self.words.windowed("\0", self.alias, f"{self.alias}.{self.time}", window)
        before, middle = from_.split("\0")
        carried = [f"_c.{column}" for column in self.carried]
        keys = [f"{key} AS k{number}" for number, key in enumerate(self.keys)]
        head = f"SELECT {', '.join([*carried, f'{border} AS _w', *keys, *values])} FROM {before}"
        tail = f"{self.where} GROUP BY {', '.join([*carried, border, *self.keys])}"
        return (head, f"{middle} CROSS JOIN ", f" AS _c{tail}") if carried else (head, middle, tail)

    def merged(self, panes: PaneWords, window: Window, values: Sequence[str]) -> str:
        """SELECT of the same over panes."""
        by = ["_start", *self.carried, *(f"k{number}" for number in range(len(self.keys)))]
        return (
            f"SELECT {', '.join(['_start AS _w', *by[1:], *values])} FROM {panes.rows(window)} GROUP BY {', '.join(by)}"
        )


class Writer:
    """Writes one SELECT; `shared`: its constants are columns of a table."""

    def __init__(self, words: Words, tables: Mapping[str, Mapping[str, str]], shared: bool) -> None:
        self._words = words
        self._tables = tables
        self._shared = shared
        self._expressions = Expressions(words, "", {}, shared)
        self.rule = "_c.rule"

    @property
    def constants(self) -> Sequence[tuple[Kind, object]]:
        """Those that were taken out."""
        return self._expressions.constants

    def select(self, select: exp.Select) -> Written:
        """The SELECT. Raises `NotPlain`."""
        wanted = {"expressions", "from_", "where", "group", "having"}
        if {name for name, value in select.args.items() if value} - wanted:
            raise NotPlain("it has more than SELECT, FROM, WHERE, GROUP BY and HAVING")
        table = select.args["from_"].this
        source = self._source(table)
        self._expressions.alias, self._expressions.columns = table.alias_or_name, source.columns
        if select.args.get("group") is not None:
            return self._aggregated(select, source)
        if select.args.get("having") is not None:
            raise NotPlain("HAVING without groups")
        return self._filtered(select, source)

    def _filtered(self, select: exp.Select, source: Source) -> Written:
        where = self._where(select.args.get("where"))
        outputs = self._outputs(select)
        join, tail = self._join(where)
        middle = f" AS {self._words.name(self._expressions.alias)}{join}"
        paned = source.paned
        if paned is not None:
            # Of a source without a table of constants the merge is one text.
            merge = (f" FROM {paned.merge[0]}{middle}", tail)
            paned = replace(paned, merge=merge if self._shared else ("".join(merge),))
        return Written(outputs, (" FROM ", middle, tail), source, source.windowed, paned)

    def _aggregated(self, select: exp.Select, source: Source) -> Written:
        expressions = self._expressions
        group = select.args["group"]
        if {name for name, value in group.args.items() if value} - {"expressions"}:
            raise NotPlain("groups of groups")
        windows = [node for node in group.expressions if is_window(node)]
        if len(windows) != 1:
            raise NotPlain("groups without one window")
        time, window = self._spans(windows[0])
        where = self._where(select.args.get("where"))
        keys = [expressions.value(node) for node in group.expressions if not is_window(node)]
        if any(key.literal is not None or key.kind == "double" for key in keys):
            raise NotPlain("groups by constants or fractions")
        nodes = [*select.expressions, *filter(None, [select.args.get("having")])]
        found = [node for part in nodes for node in part.find_all(*AGGREGATES)]
        aggregates = [expressions.aggregate(node) for node in found]
        early = self._shared and len(self.constants) > 0  # some are needed before grouping
        if early:
            expressions.home, self.rule = "_g", "_g.rule"
        held = {key.sql: Value(f"_g.k{n}", key.kind) for n, key in enumerate(keys)}
        for n, (node, one) in enumerate(zip(found, aggregates, strict=True)):
            held[text(node)] = Value(f"_g.a{n}", one.value.kind)
        expressions.group(held, window)
        having, outputs = self._where(select.args.get("having")), self._outputs(select)
        carried = ["rule", *(f"p{number}" for number in range(len(self.constants)))] if early else []
        name = self._words.name(expressions.alias)
        groups = _Groups(self._words, name, self._words.name(time), carried, [key.sql for key in keys], where)
        join, end = ("", having) if early else self._join(having)
        head, middle, tail = groups.rows(window, [f"{one.value.sql} AS a{n}" for n, one in enumerate(aggregates)])
        if early:
            parts = (f" FROM ({head}", middle, f"{tail}) AS _g{end}")
        else:
            parts = (f" FROM ({head}", f"{middle}{tail}) AS _g{join}", end)
        paned = None if source.windowed else self._paned(groups, source, window, aggregates, (join, end))
        return Written(outputs, parts, source, True, paned)

    def _paned(
        self, groups: _Groups, source: Source, window: Window, aggregates: Sequence[Aggregate], after: tuple[str, str]
    ) -> Paned | None:
        """Sliding windows over rows in two steps. `after`: the text up to the table of constants, and after it."""
        panes, (size, slide, offset) = self._words.panes, window
        if panes is None or size == slide:
            return None
        parts = [panes.parts(one) for one in aggregates]
        names = [[f"a{n}_{place}" for place, _ in enumerate(part)] for n, part in enumerate(parts)]
        split = [f"{sql} AS {name}" for n, part in enumerate(parts) for sql, name in zip(part, names[n], strict=True)]
        head, middle, tail = groups.rows((gcd(size, slide),) * 2 + (offset,), split)
        values = [f"{panes.merged(one, names[n])} AS a{n}" for n, one in enumerate(aggregates)]
        merge = f" FROM ({groups.merged(panes, window, values)}) AS _g{after[0]}"
        partial = (f"{head}{source.sql}{middle}", tail)
        return Paned(
            min(source.streams),
            window,
            partial if groups.carried else ("".join(partial),),
            (merge, after[1]) if self._shared and not groups.carried else (merge + after[1],),
        )

    def _join(self, where: str) -> tuple[str, str]:
        return (" CROSS JOIN ", f" AS _c{where}") if self._shared else (where, "")

    def _source(self, table: exp.Expr) -> Source:
        if isinstance(table, exp.Subquery) and isinstance(table.this, exp.Select):
            written = Writer(self._words, self._tables, shared=False).select(table.this)
            head, middle, tail = written.parts
            columns = ", ".join(f"{value.sql} AS {self._words.name(name)}" for name, value in written.outputs)
            kinds = {name.lower(): value.kind for name, value in written.outputs}
            if len(kinds) != len(written.outputs) or "" in kinds:
                raise NotPlain("an output without a name of its own")
            source, paned = written.source, written.paned
            sql = f"(SELECT {columns}{head}{source.sql}{middle}{tail})"
            if paned is not None:
                paned = replace(paned, merge=(f"(SELECT {columns}{paned.merge[0]})",))
            return Source(sql, kinds, source.streams, True, written.windowed, paned)
        if isinstance(table, exp.Table) and table.name in self._tables:
            known: dict[str, Kind] = {}
            for name, kind in self._tables[table.name].items():
                if kind in KINDS:
                    known[name.lower()] = kind  # type: ignore[assignment]
            return Source(self._words.name(table.name), known, frozenset({table.name}))
        raise NotPlain("it reads something else than one stream")

    def _spans(self, node: exp.Expr) -> tuple[str, Window]:
        arguments = arguments_of(node)
        try:
            size, slide, start = spans(node, arguments[1:])
        except Unsupported as error:
            raise NotPlain("window") from error
        if self._expressions.value(arguments[0]).kind != "timestamp":
            raise NotPlain("window")
        return arguments[0].name.lower(), (size, slide, start)

    def _where(self, node: exp.Expr | None) -> str:
        return "" if node is None else f" WHERE {self._expressions.condition(node.this)}"

    def _outputs(self, select: exp.Select) -> Outputs:
        expressions = self._expressions
        outputs: Outputs = []
        for node in select.expressions:
            if isinstance(node, exp.Star):
                if expressions.grouped or any(node.args.values()):
                    raise NotPlain("a star beside groups")
                outputs += [(name, expressions.column(name)) for name in expressions.columns]
                continue
            value = expressions.value(node.unalias())
            if value.literal is not None:
                if value.kind == "decimal":
                    raise NotPlain("a decimal number as output")
                value = Value(expressions.typed(value, value.kind), value.kind)
            outputs.append((node.alias_or_name, value))
        return outputs
