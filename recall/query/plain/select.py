"""SELECTs of plain queries, and the two steps of those over sliding windows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from recall.errors import SparkRequired
from recall.query.extra import excludes_only_extra
from recall.query.parsing import Unsupported
from recall.query.parts import clauses_of, joins_of, sources_of
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
    select_columns,
)
from recall.query.plain.windows import WindowGroups, write_panes
from recall.query.sql_names import EXTRA
from recall.query.windows import is_window, parse_window, restore_windows, window_arguments

# Outputs by name, in the order of the SELECT list.
Outputs = list[tuple[str, TypedExpression]]

_SUPPORTED_CLAUSES = {"expressions", "from_", "joins", "where", "group", "having"}
# By side and kind as parsed. Both engines read these keywords alike.
_JOIN_KEYWORDS = {
    ("", ""): "JOIN",
    ("", "INNER"): "JOIN",
    ("", "CROSS"): "JOIN",
    ("LEFT", ""): "LEFT JOIN",
    ("LEFT", "OUTER"): "LEFT JOIN",
    ("LEFT", "SEMI"): "SEMI JOIN",
    ("", "SEMI"): "SEMI JOIN",
    ("LEFT", "ANTI"): "ANTI JOIN",
    ("", "ANTI"): "ANTI JOIN",
}
_FILTERING_JOINS = ("SEMI JOIN", "ANTI JOIN")  # the relation's columns are visible in ON only
# Clauses whose name in the parser is not the one in SQL.
_CLAUSE_NAMES = {
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
    has_relations: bool = False
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
    has_relations: bool
    paned_query: PanedQuery | None


class SelectWriter:
    """Writes one SELECT over a stream. `parameterized`: its constants are columns of a table."""

    def __init__(
        self,
        dialect: SqlDialect,
        tables: Mapping[str, Mapping[str, str]],
        relations: Mapping[str, Mapping[str, str]],
        parameterized: bool,
    ) -> None:
        self._dialect = dialect
        self._tables = tables
        self._relations = relations
        self._parameterized = parameterized
        self._expressions = ExpressionWriter(dialect, parameterized)
        self._source_alias = ""
        self._joins = ""
        self.rule_column = "_c.rule"

    @property
    def constants(self) -> Sequence[tuple[PlainType, object]]:
        """The types and values of the constants."""
        return self._expressions.constants

    def write(self, select: exp.Select) -> RenderedSelect:
        """Write the SELECT. Raises `SparkRequired`."""
        select = restore_windows(select)
        other_clauses = clauses_of(select) - _SUPPORTED_CLAUSES
        if other_clauses:
            raise SparkRequired(", ".join(sorted(map(_format_clause, other_clauses))))
        if any(source.alias_column_names for source in sources_of(select)):
            raise SparkRequired("table alias with column names")
        if self._is_relation(select.args["from_"].this):
            select = self._put_stream_first(select)
        table = select.args["from_"].this
        source = self._write_source(table)
        self._source_alias = table.alias_or_name
        self._expressions.add_table(self._source_alias, source.columns)
        self._joins = "".join(map(self._write_join, joins_of(select)))
        if select.args.get("group") is not None:
            return self._write_aggregation(select, source)
        if select.args.get("having") is not None:
            raise SparkRequired("HAVING without GROUP BY")
        return self._write_filter(select, source)

    # FROM

    def _write_source(self, table: exp.Expr) -> PlainSource:
        if isinstance(table, exp.Subquery) and isinstance(table.this, exp.Select):
            return self._write_subquery(table.this)
        if isinstance(table, exp.Table) and table.name in self._tables:
            columns = select_columns(self._tables[table.name], PLAIN_TYPES)
            return PlainSource(self._dialect.quote(table.name), columns, frozenset({table.name}))
        raise SparkRequired("FROM without exactly one stream")

    def _is_relation(self, table: exp.Expr) -> bool:
        return isinstance(table, exp.Table) and table.name in self._relations

    def _put_stream_first(self, select: exp.Select) -> exp.Select:
        """A SELECT whose FROM is a relation, with FROM of the stream that is joined to it."""
        select = select.copy()
        relations = [select.args["from_"].this]
        streams: list[exp.Expr] = []
        conditions: list[exp.Expr] = []
        for join in joins_of(select):
            is_inner = _JOIN_KEYWORDS.get((join.side, join.kind)) == "JOIN"
            if not is_inner or clauses_of(join) - {"this", "side", "kind", "on"}:
                raise SparkRequired("FROM of a relation with a join other than INNER JOIN with ON")
            condition = join.args.get("on")
            if condition is not None:
                conditions.append(condition)
            if self._is_relation(join.this):
                relations.append(join.this)
            else:
                streams.append(join.this)
        if len(streams) != 1:
            raise SparkRequired("FROM without exactly one stream")
        select.set("from_", exp.From(this=streams[0]))
        select.set("joins", [exp.Join(this=relation, kind="CROSS") for relation in relations])
        if conditions:
            select.where(*conditions, copy=False)
        return select

    def _write_join(self, join: exp.Join) -> str:
        """A join of a relation; its columns are visible from now on."""
        keyword = _JOIN_KEYWORDS.get((join.side, join.kind))
        if keyword is None or clauses_of(join) - {"this", "side", "kind", "on", "using"}:
            raise SparkRequired("join other than INNER, CROSS, LEFT, SEMI and ANTI")
        if not self._is_relation(join.this):
            raise SparkRequired("join of a table that is not a relation")
        expressions = self._expressions
        alias = join.this.alias_or_name
        if expressions.matching_aliases(alias):
            raise SparkRequired("tables with the same name")
        earlier_aliases = list(expressions.tables)
        columns = select_columns(self._relations[join.this.name], PLAIN_TYPES)
        expressions.add_table(alias, columns)
        relation = f"{self._dialect.quote(join.this.name)} AS {self._dialect.quote(alias)}"
        conditions: list[str] = []
        for name in join.args.get("using") or ():
            conditions.append(self._write_using(name.name, earlier_aliases, alias))
        on = join.args.get("on")
        if on is not None:
            conditions.append(expressions.write_condition(on))
        if keyword in _FILTERING_JOINS:
            del expressions.tables[alias]
        if conditions:
            return f" {keyword} {relation} ON {' AND '.join(conditions)}"
        if keyword != "JOIN":
            raise SparkRequired("outer join without condition")
        return f" CROSS JOIN {relation}"

    def _write_using(self, name: str, earlier_aliases: Sequence[str], alias: str) -> str:
        """The condition of USING for one column, which is one column from now on."""
        expressions = self._expressions
        column = name.lower()
        owners = [owner for owner in earlier_aliases if column in expressions.tables[owner]]
        if not owners:
            raise SparkRequired(f"column {name} of an unsupported type")
        if len(owners) > 1 and column not in expressions.shared_columns:
            raise SparkRequired(f"ambiguous column {name}")
        equality = exp.EQ(
            this=exp.column(name, table=owners[0]), expression=exp.column(name, table=alias)
        )
        condition = expressions.write_condition(equality)
        expressions.shared_columns.add(column)
        return condition

    def _write_subquery(self, select: exp.Select) -> PlainSource:
        writer = SelectWriter(self._dialect, self._tables, self._relations, parameterized=False)
        rendered = writer.write(select)
        types: dict[str, PlainType] = {}
        columns = []
        for name, value in rendered.outputs:
            types[name.lower()] = value.type
            columns.append(f"{value.sql} AS {self._dialect.quote(name)}")
        if len(types) != len(rendered.outputs) or "" in types:
            raise SparkRequired("output column without a unique name")
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
            has_relations=rendered.has_relations,
            paned_query=paned_query,
        )

    # Rows

    def _write_filter(self, select: exp.Select, source: PlainSource) -> RenderedSelect:
        where = self._write_where(select.args.get("where"))
        outputs = self._write_outputs(select)
        before_constants, after_constants = self._join_constants(f"{self._joins}{where}")
        alias = self._dialect.quote(self._source_alias)
        from_ = f" AS {alias}{before_constants}"
        paned_query = source.paned_query
        if paned_query is not None:
            merge: tuple[str, ...] = (f" FROM {paned_query.merge[0]}{from_}", after_constants)
            if not self._parameterized:
                merge = ("".join(merge),)
            paned_query = replace(paned_query, merge=merge)
        text_parts = (" FROM ", from_, after_constants)
        return RenderedSelect(
            outputs=outputs,
            text_parts=text_parts,
            source=source,
            has_windows=source.has_windows,
            has_relations=source.has_relations or bool(self._joins),
            paned_query=paned_query,
        )

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
                if expressions.is_grouped or self._joins or not excludes_only_extra(node):
                    raise SparkRequired("* with GROUP BY, JOIN or EXCEPT")
                outputs += self._star_columns(node)
                continue
            if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
                outputs += self._write_qualified_star(node)
                continue
            value = expressions.write(node.unalias())
            if value.literal is not None:
                if value.type == "decimal":
                    raise SparkRequired("output column of type decimal")
                value = TypedExpression(expressions.cast_to(value, value.type), value.type)
            outputs.append((node.alias_or_name, value))
        return outputs

    def _write_qualified_star(self, node: exp.Column) -> Outputs:
        """The columns of the stream for `alias.*`. A relation has hidden columns."""
        is_source = node.table.lower() == self._source_alias.lower() and not node.db
        if self._expressions.is_grouped or not is_source or not excludes_only_extra(node.this):
            raise SparkRequired("`alias.*` of a relation, or with GROUP BY or EXCEPT")
        return self._star_columns(node.this)

    def _star_columns(self, star: exp.Star) -> Outputs:
        """The columns of the stream for `*`, which may exclude `_extra`."""
        expressions = self._expressions
        alias = self._source_alias
        excluded = {EXTRA} if star.args.get("except_") else set()
        return [
            (name, expressions.resolve_column(name, alias))
            for name in expressions.tables[alias]
            if name not in excluded
        ]

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
        has_relations = source.has_relations or bool(self._joins)
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
            alias=self._dialect.quote(self._source_alias),
            time=self._dialect.quote(time),
            window=window,
            keys=[key.sql for key in keys],
            aggregates=aggregates,
            joins=self._joins,
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
        # Panes outlive the versions of a relation that they were computed with.
        if not source.has_windows and not has_relations:
            paned_query = write_panes(
                groups, min(source.streams), source.sql, suffix, self._parameterized
            )
        return RenderedSelect(
            outputs=outputs,
            text_parts=text_parts,
            source=source,
            has_windows=True,
            has_relations=has_relations,
            paned_query=paned_query,
        )

    def _parse_window(self, group: exp.Expr) -> tuple[str, Window]:
        """The name of the time column, and the one window of GROUP BY."""
        if clauses_of(group) - {"expressions"}:
            raise SparkRequired("grouping sets")
        windows = list(filter(is_window, group.expressions))
        if len(windows) != 1:
            raise SparkRequired("GROUP BY without exactly one window")
        time, *intervals = window_arguments(windows[0])
        try:
            window = parse_window(windows[0], intervals)
        except Unsupported as error:
            raise SparkRequired("unsupported window") from error
        if self._expressions.write(time).type != "timestamp":
            raise SparkRequired("window over a column that is not a timestamp")
        source_columns = self._expressions.tables[self._source_alias]
        is_in_source = isinstance(time, exp.Column) and (
            time.table.lower() in ("", self._source_alias.lower())
        )
        if not is_in_source or time.name.lower() not in source_columns:
            raise SparkRequired("window over a column of a relation")
        return time.name.lower(), window

    def _write_keys(self, group: exp.Expr) -> list[TypedExpression]:
        """The expressions of GROUP BY besides the window."""
        keys = []
        for node in group.expressions:
            if is_window(node):
                continue
            key = self._expressions.write(node)
            if key.literal is not None or key.type == "double":
                raise SparkRequired("GROUP BY of a constant or a floating-point number")
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
