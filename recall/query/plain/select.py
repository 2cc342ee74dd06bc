"""SELECTs of plain queries, and the two steps of those over sliding windows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from recall.errors import NotPlain
from recall.query.parsing import Unsupported
from recall.query.parts import clauses_of
from recall.query.plain.expressions import AGGREGATES, ExpressionWriter, normalized_text
from recall.query.plain.model import (
    PLAIN_TYPES,
    ColumnTypes,
    PanedQuery,
    PlainAggregate,
    PlainType,
    SqlDialect,
    TypedExpression,
    Window,
)
from recall.query.plain.windows import WindowGroups, write_panes
from recall.query.windows import is_window, parse_window, window_arguments

# Outputs by name, in the order of the SELECT list.
Outputs = list[tuple[str, TypedExpression]]

_SUPPORTED_CLAUSES = {"expressions", "from_", "where", "group", "having"}
# Clauses whose name in the parser is not the one in SQL.
_CLAUSE_NAMES = {
    "joins": "JOIN",
    "order": "ORDER BY",
    "with_": "WITH",
    "laterals": "LATERAL VIEW",
    "windows": "WINDOW",
    "sort": "SORT BY",
    "cluster": "CLUSTER BY",
    "distribute": "DISTRIBUTE BY",
    "operation_modifiers": "modifier of SELECT",
}


@dataclass(frozen=True)
class PlainSource:
    """What FROM names: a table, or a SELECT, which may group by windows."""

    sql: str
    columns: ColumnTypes
    streams: frozenset[str]
    is_query: bool = False
    has_windows: bool = False
    paned_query: PanedQuery | None = None


@dataclass(frozen=True)
class RenderedSelect:
    """A SELECT without its SELECT list, which follows from `outputs`.

    `text_parts`: the text from FROM on: before the source, up to the table of constants, and after
    it. The `merge` of `paned_query` begins at FROM, too.
    """

    outputs: Outputs
    text_parts: tuple[str, str, str]
    source: PlainSource
    has_windows: bool
    paned_query: PanedQuery | None


class SelectWriter:
    """Writes one SELECT. `parameterized`: its constants are columns of a table."""

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
        """The types and values of the constants."""
        return self._expressions.constants

    def write(self, select: exp.Select) -> RenderedSelect:
        """Write the SELECT. Raises `NotPlain`."""
        other_clauses = clauses_of(select) - _SUPPORTED_CLAUSES
        if other_clauses:
            raise NotPlain(", ".join(sorted(map(_format_clause, other_clauses))))
        table = select.args["from_"].this
        source = self._write_source(table)
        self._expressions.alias = table.alias_or_name
        self._expressions.columns = source.columns
        if select.args.get("group") is not None:
            return self._write_aggregation(select, source)
        if select.args.get("having") is not None:
            raise NotPlain("HAVING without GROUP BY")
        return self._write_filter(select, source)

    # FROM

    def _write_source(self, table: exp.Expr) -> PlainSource:
        if isinstance(table, exp.Subquery) and isinstance(table.this, exp.Select):
            return self._write_subquery(table.this)
        if isinstance(table, exp.Table) and table.name in self._tables:
            columns: dict[str, PlainType] = {}
            for name, column_type in self._tables[table.name].items():
                if column_type in PLAIN_TYPES:
                    columns[name.lower()] = column_type  # type: ignore[assignment]
            return PlainSource(self._dialect.quote(table.name), columns, frozenset({table.name}))
        raise NotPlain("FROM of anything but one stream")

    def _write_subquery(self, select: exp.Select) -> PlainSource:
        rendered = SelectWriter(self._dialect, self._tables, parameterized=False).write(select)
        types: dict[str, PlainType] = {}
        columns = []
        for name, value in rendered.outputs:
            types[name.lower()] = value.type
            columns.append(f"{value.sql} AS {self._dialect.quote(name)}")
        if len(types) != len(rendered.outputs) or "" in types:
            raise NotPlain("output column without a unique name")
        select_list = f"SELECT {', '.join(columns)}"
        source = rendered.source
        before_source, before_constants, after_constants = rendered.text_parts
        paned_query = rendered.paned_query
        if paned_query is not None:
            paned_query = replace(paned_query, merge=(f"({select_list}{paned_query.merge[0]})",))
        return PlainSource(
            sql=f"({select_list}{before_source}{source.sql}{before_constants}{after_constants})",
            columns=types,
            streams=source.streams,
            is_query=True,
            has_windows=rendered.has_windows,
            paned_query=paned_query,
        )

    # Rows

    def _write_filter(self, select: exp.Select, source: PlainSource) -> RenderedSelect:
        where = self._write_where(select.args.get("where"))
        outputs = self._write_outputs(select)
        before_constants, after_constants = self._join_constants(where)
        alias = self._dialect.quote(self._expressions.alias)
        from_ = f" AS {alias}{before_constants}"
        paned_query = source.paned_query
        if paned_query is not None:
            merge: tuple[str, ...] = (f" FROM {paned_query.merge[0]}{from_}", after_constants)
            if not self._parameterized:
                merge = ("".join(merge),)
            paned_query = replace(paned_query, merge=merge)
        text_parts = (" FROM ", from_, after_constants)
        return RenderedSelect(outputs, text_parts, source, source.has_windows, paned_query)

    def _write_where(self, clause: exp.Expr | None) -> str:
        """WHERE with the condition of a WHERE or HAVING clause."""
        if clause is None:
            return ""
        return f" WHERE {self._expressions.write_condition(clause.this)}"

    def _write_outputs(self, select: exp.Select) -> Outputs:
        expressions = self._expressions
        outputs: Outputs = []
        for node in select.expressions:
            if isinstance(node, exp.Star):
                if expressions.is_grouped or any(node.args.values()):
                    raise NotPlain("* with GROUP BY or EXCEPT")
                for name in expressions.columns:
                    outputs.append((name, expressions.resolve_column(name)))
                continue
            value = expressions.write(node.unalias())
            if value.literal is not None:
                if value.type == "decimal":
                    raise NotPlain("output column of type decimal")
                value = TypedExpression(expressions.cast_to(value, value.type), value.type)
            outputs.append((node.alias_or_name, value))
        return outputs

    def _join_constants(self, text: str) -> tuple[str, str]:
        """A text with the table of constants joined before it, if there is one.

        The result is the text up to that table, and after it.
        """
        if not self._parameterized:
            return text, ""
        return " CROSS JOIN ", f" AS _c{text}"

    # Groups

    def _write_aggregation(self, select: exp.Select, source: PlainSource) -> RenderedSelect:
        group = select.args["group"]
        having_clause = select.args.get("having")
        time, window = self._parse_window(group)
        where = self._write_where(select.args.get("where"))
        keys = self._write_keys(group)
        aggregate_nodes: list[exp.Expr] = []
        for clause in [*select.expressions, *filter(None, [having_clause])]:
            aggregate_nodes.extend(clause.find_all(*AGGREGATES))
        aggregates = list(map(self._expressions.write_aggregate, aggregate_nodes))
        # Constants that are needed before grouping are carried along by each group.
        groups_carry_constants = self._parameterized and len(self.constants) > 0
        if groups_carry_constants:
            self._expressions.constants_alias = "_g"
            self.rule_column = "_g.rule"
        self._enter_groups(keys, aggregate_nodes, aggregates, window)
        having = self._write_where(having_clause)
        outputs = self._write_outputs(select)
        constant_columns: list[str] = []
        if groups_carry_constants:
            constant_columns.append("rule")
            for number in range(len(self.constants)):
                constant_columns.append(f"p{number}")
        groups = WindowGroups(
            dialect=self._dialect,
            alias=self._dialect.quote(self._expressions.alias),
            time=self._dialect.quote(time),
            window=window,
            keys=[key.sql for key in keys],
            aggregates=aggregates,
            where=where,
            constant_columns=constant_columns,
        )
        before_source, before_constants, after_constants = groups.select_windows()
        if groups_carry_constants:
            suffix = ("", having)
            after_constants = f"{after_constants}) AS _g{having}"
        else:
            suffix = self._join_constants(having)
            before_constants = f"{before_constants}{after_constants}) AS _g{suffix[0]}"
            after_constants = suffix[1]
        text_parts = (f" FROM ({before_source}", before_constants, after_constants)
        paned_query = None
        if not source.has_windows:
            paned_query = write_panes(
                groups, min(source.streams), source.sql, suffix, self._parameterized
            )
        return RenderedSelect(
            outputs, text_parts, source, has_windows=True, paned_query=paned_query
        )

    def _parse_window(self, group: exp.Expr) -> tuple[str, Window]:
        """The name of the time column, and the one window of GROUP BY."""
        if clauses_of(group) - {"expressions"}:
            raise NotPlain("grouping sets")
        windows = list(filter(is_window, group.expressions))
        if len(windows) != 1:
            raise NotPlain("GROUP BY without exactly one window")
        time, *intervals = window_arguments(windows[0])
        try:
            window = parse_window(windows[0], intervals)
        except Unsupported as error:
            raise NotPlain("unsupported window") from error
        if self._expressions.write(time).type != "timestamp":
            raise NotPlain("window over a column that is not a timestamp")
        return time.name.lower(), window

    def _write_keys(self, group: exp.Expr) -> list[TypedExpression]:
        """The expressions of GROUP BY besides the window."""
        keys = []
        for node in group.expressions:
            if is_window(node):
                continue
            key = self._expressions.write(node)
            if key.literal is not None or key.type == "double":
                raise NotPlain("GROUP BY of a constant or a floating-point number")
            keys.append(key)
        return keys

    def _enter_groups(
        self,
        keys: Sequence[TypedExpression],
        aggregate_nodes: Sequence[exp.Expr],
        aggregates: Sequence[PlainAggregate],
        window: Window,
    ) -> None:
        """Write expressions over groups `_g` with columns `k<n>` and `a<n>` from now on."""
        values: dict[str, TypedExpression] = {}
        for number, key in enumerate(keys):
            values[key.sql] = TypedExpression(f"_g.k{number}", key.type)
        for number, aggregate in enumerate(aggregates):
            text = normalized_text(aggregate_nodes[number])
            values[text] = TypedExpression(f"_g.a{number}", aggregate.expression.type)
        self._expressions.enter_groups(values, window)


def _format_clause(name: str) -> str:
    """A clause as SQL writes it; `name`: of the parser."""
    return _CLAUSE_NAMES.get(name, name.strip("_").upper())
