"""SELECTs of a query about an event, rewritten so that each row carries its event."""

from collections.abc import Collection, Iterator

from sqlglot import exp

from recall.query.extra import exclude_columns
from recall.query.lift.model import AttributeFilter, EventScope, QueryInputs, TableBindings
from recall.query.lift.ordering import has_order_or_limit, lift_limit
from recall.query.lift.tables import TableLifter, carried_names, named_subquery, quoted_column
from recall.query.parsing import Unsupported
from recall.query.parts import (
    aggregates_of,
    check_plain_groups,
    check_supported,
    check_table_alias,
    common_tables,
    event_columns,
    is_inside,
    joins_of,
    own_nodes,
    sources_of,
    visible_sources_of,
)
from recall.query.sql_names import EID, EVENT, EVENT_TS, EXTRA, attribute_column

# Aliases of the pending events: in a SELECT without FROM, and outside of an aggregate.
_EVENTS = "_e"
_ALL_EVENTS = "_p"


class SelectLifter:
    """Rewrites one query and records what it reads."""

    def __init__(
        self, scope: EventScope, bindings: TableBindings, number_rows: bool, rows_in_range: bool
    ) -> None:
        self._scope = scope
        self._bindings = bindings
        self._number_rows = number_rows
        self._tables = TableLifter(scope, bindings, rows_in_range)
        # For each stream in each SELECT: (column, attribute) pairs that must be equal.
        self._stream_equalities: list[tuple[str, frozenset[tuple[str, str]]]] = []

    @property
    def inputs(self) -> QueryInputs:
        """What the query reads."""
        return self._tables.inputs

    def attribute_filters(self) -> tuple[AttributeFilter, ...]:
        """The equalities that hold wherever a stream is read."""
        common_pairs: dict[str, frozenset[tuple[str, str]]] = {}
        for stream, pairs in self._stream_equalities:
            common_pairs[stream] = common_pairs.get(stream, pairs) & pairs
        filters = []
        for stream, pairs in sorted(common_pairs.items()):
            for column, attribute in sorted(pairs):
                filters.append(AttributeFilter(stream, column, attribute))
        return tuple(filters)

    def carried_columns(self) -> list[exp.Expr]:
        """The columns that carry the event along with each row."""
        return [exp.column(name, quoted=True) for name in carried_names(self._scope)]

    def _carried_columns_of(self, alias: str) -> list[exp.Column]:
        return [quoted_column(alias, name) for name in carried_names(self._scope)]

    def lift(self, query: exp.Expr, local_tables: frozenset[str]) -> exp.Query:
        """The query with the event in its last columns. `local_tables`: names of visible CTEs."""
        if isinstance(query, exp.Subquery):
            if has_order_or_limit(query):
                raise Unsupported("write ORDER BY and LIMIT inside the parentheses", query)
            return self.lift(query.this, local_tables)
        with_ = query.args.get("with_")
        if with_ is not None and with_.args.get("recursive"):
            raise Unsupported("WITH RECURSIVE is not supported", query)
        for cte in common_tables(query):
            cte.set("this", self.lift(cte.this, local_tables))
            local_tables |= {cte.alias.lower()}
        if isinstance(query, exp.SetOperation):
            if has_order_or_limit(query):
                raise Unsupported(
                    "put the UNION in parentheses in FROM and order or limit outside", query
                )
            for side in ("this", "expression"):
                query.set(side, self.lift(query.args[side], local_tables))
            return query
        if not isinstance(query, exp.Select):
            raise Unsupported("expected a single SELECT statement", query)
        return self._lift_select(query, local_tables)

    def _lift_select(self, select: exp.Select, local_tables: frozenset[str]) -> exp.Select:
        check_supported(select)
        _name_outputs(select)
        self._record_equalities(select, local_tables)
        exclude_columns(select, self._hidden_columns(select, local_tables))
        event_alias = self._lift_sources(select, local_tables)
        self._expand_stars(select)
        aggregates = list(aggregates_of(select))
        for window in own_nodes(select, exp.Window):
            event = exp.column(EID, table=event_alias, quoted=True)
            window.set("partition_by", [event, *window.args["partition_by"]])
        for attribute, column in list(event_columns(select)):
            column.replace(self._event_column(attribute, event_alias, column))
        group = select.args.get("group")
        if group is not None:
            check_plain_groups(group)
            carried_columns = self._carried_columns_of(event_alias)
            group.set("expressions", [*group.expressions, *carried_columns])
        elif aggregates:
            self._lift_global_aggregate(select, event_alias, aggregates)
            event_alias = _ALL_EVENTS
        outputs = list(select.expressions)
        for carried_column in self._carried_columns_of(event_alias):
            outputs.append(exp.alias_(carried_column, carried_column.name, quoted=True))
        select.set("expressions", outputs)
        is_outermost = select.parent is None
        return lift_limit(select, event_alias, self._number_rows and is_outermost)

    def _hidden_columns(
        self, select: exp.Select, local_tables: frozenset[str]
    ) -> dict[str, Collection[str]]:
        """The columns of the tables in FROM that `*` does not include, by alias."""
        hidden = {name.lower(): columns for name, columns in self._scope.hidden.items()}
        event_tables = {name.lower() for name in self._scope.event_tables}
        columns_by_alias: dict[str, Collection[str]] = {}
        for source in sources_of(select):
            name = source.name.lower() if isinstance(source, exp.Table) else ""
            if name in local_tables:
                continue
            if name in event_tables:
                if name in hidden:
                    columns_by_alias[source.alias_or_name] = hidden[name]
            elif name in self._scope.tables.streams:
                columns_by_alias[source.alias_or_name] = (EXTRA,)
        return columns_by_alias

    def _event_column(self, attribute: str, event_alias: str, node: exp.Expr) -> exp.Expr:
        """`event.<attribute>` as a column of the row. Raises `Unsupported` for an unknown one."""
        columns = {name.lower(): attribute_column(name) for name in self._scope.attributes}
        columns["ts"] = EVENT_TS
        columns["eid"] = EID
        if attribute.lower() not in columns:
            available = ", ".join(sorted(columns))
            raise Unsupported(
                f"the event has no attribute {attribute!r}; available: {available}", node
            )
        return exp.column(columns[attribute.lower()], table=event_alias, quoted=True)

    def _record_equalities(self, select: exp.Select, local_tables: frozenset[str]) -> None:
        """Record which attributes of the event each stream of this SELECT must match."""
        sources = sources_of(select)
        for source in sources:
            if not isinstance(source, exp.Table):
                continue
            stream = source.name.lower()
            if stream in local_tables or stream not in self._scope.tables.streams:
                continue
            aliases = {source.alias_or_name.lower()}
            if len(visible_sources_of(select)) == 1:
                aliases.add("")
            pairs = frozenset(_attribute_equalities(select, aliases))
            self._stream_equalities.append((stream, pairs))

    # FROM

    def _lift_sources(self, select: exp.Select, local_tables: frozenset[str]) -> str:
        """Replace each table by one that carries the event; returns the alias of the first."""
        from_ = select.args.get("from_")
        if from_ is None:
            pending = exp.to_table(self._bindings.pending_table)
            table = exp.alias_(pending, _EVENTS, table=True, quoted=True)
            select.set("from_", exp.From(this=table))
            return _EVENTS
        event_alias: str = from_.this.alias_or_name
        from_.set("this", self._lift_source(from_.this, local_tables))
        for join in joins_of(select):
            self._lift_join(join, event_alias, local_tables)
        return event_alias

    def _lift_join(self, join: exp.Join, event_alias: str, local_tables: frozenset[str]) -> None:
        alias = join.this.alias_or_name
        if join.side in ("RIGHT", "FULL") or join.method:
            raise Unsupported(
                f"{join.method or join.side} JOIN is not supported in a query about an event", join
            )
        join.set("this", self._lift_source(join.this, local_tables))
        if join.args.get("using"):
            join.set("using", [*join.args["using"], exp.to_identifier(EID, quoted=True)])
            return
        condition: exp.Expr = exp.EQ(
            this=quoted_column(alias, EID), expression=quoted_column(event_alias, EID)
        )
        if join.args.get("on") is not None:
            condition = exp.and_(join.args["on"], condition)
        join.set("on", condition)
        if join.kind == "CROSS":
            join.set("kind", None)

    def _lift_source(self, node: exp.Expr, local_tables: frozenset[str]) -> exp.Expr:
        alias = node.alias_or_name
        if alias.lower() == EVENT:
            raise Unsupported("event is reserved for the new event; use another table name", node)
        check_table_alias(node)
        if isinstance(node, exp.Subquery):
            if not alias:
                raise Unsupported("name the subquery: (SELECT …) AS x", node)
            return named_subquery(self.lift(node.this, local_tables), alias)
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier) or node.db:
            raise Unsupported(
                "FROM supports only streams, relations, derived streams and tables of the rule",
                node,
            )
        name = node.name.lower()
        if name in local_tables:
            return node
        return named_subquery(self._tables.lift(name, node), alias)

    # The other clauses

    def _expand_stars(self, select: exp.Select) -> None:
        """Replace `*` by the query's own columns, without those that carry the event."""
        aliases = [source.alias_or_name for source in visible_sources_of(select)]
        outputs: list[exp.Expr] = []
        for output in select.expressions:
            if not output.is_star:
                outputs.append(output)
            elif isinstance(output, exp.Star):
                for alias in aliases:
                    outputs.append(self._own_columns(output, alias))
            else:
                outputs.append(self._own_columns(output.this, output.table))
        select.set("expressions", outputs)

    def _own_columns(self, star: exp.Expr, alias: str) -> exp.Expr:
        excluded = []
        for column in star.args.get("except_") or ():
            if column.table.lower() in ("", alias.lower()):
                excluded.append(exp.column(column.name, quoted=True))
        own_columns = exp.Star(except_=[*excluded, *self.carried_columns()])
        return exp.Column(this=own_columns, table=exp.to_identifier(alias, quoted=True))

    def _lift_global_aggregate(
        self, select: exp.Select, event_alias: str, aggregates: list[exp.Expr]
    ) -> None:
        """Left-join from the events: an aggregate without GROUP BY has a row for each of them."""
        row_event = quoted_column(event_alias, EID)
        for aggregate in aggregates:
            is_row = exp.Not(this=exp.Is(this=row_event.copy(), expression=exp.null()))
            _add_filter(aggregate, is_row)
        condition: exp.Expr = exp.EQ(this=row_event, expression=quoted_column(_ALL_EVENTS, EID))
        where = select.args.pop("where", None)
        if where is not None:
            condition = exp.and_(condition, where.this)
        rows: exp.Expr = select.args["from_"].this
        joins = select.args.pop("joins", None)
        if joins:
            rows.set("joins", joins)
            rows = exp.Paren(this=rows)
        pending = exp.to_table(self._bindings.pending_table)
        all_events = exp.alias_(pending, _ALL_EVENTS, table=True)
        select.set("from_", exp.From(this=all_events))
        select.set("joins", [exp.Join(this=rows, side="LEFT", on=condition)])
        self._read_event_from_pending(select, event_alias)
        select.set("group", exp.Group(expressions=self._carried_columns_of(_ALL_EVENTS)))

    def _read_event_from_pending(self, select: exp.Select, event_alias: str) -> None:
        """Take the event's own values from the pending events: not every event has rows."""
        names = set(carried_names(self._scope))
        for column in own_nodes(select, exp.Column):
            if column.table != event_alias or column.name not in names:
                continue
            if not is_inside(column, (exp.Join, exp.Filter)):
                column.set("table", exp.to_identifier(_ALL_EVENTS, quoted=True))


def _attribute_equalities(select: exp.Select, aliases: set[str]) -> Iterator[tuple[str, str]]:
    """(column, attribute) for each `column = event.attribute` that WHERE demands."""
    where = select.args.get("where")
    if where is None:
        return
    conditions = where.this.flatten() if isinstance(where.this, exp.And) else [where.this]
    for condition in conditions:
        equality = condition.unnest()
        if not isinstance(equality, exp.EQ):
            continue
        a, b = equality.this, equality.expression
        if not isinstance(a, exp.Column) or not isinstance(b, exp.Column):
            continue
        if a.table.lower() in aliases and b.table.lower() == EVENT:
            yield a.name, b.name
        if b.table.lower() in aliases and a.table.lower() == EVENT:
            yield b.name, a.name


def _name_outputs(select: exp.Select) -> None:
    """Give outputs without an alias the name that they would have had."""
    for output in select.expressions:
        if output.is_star:
            continue
        if isinstance(output, exp.Column) and output.table.lower() == EVENT:
            name = output.name
        elif isinstance(output, exp.Alias | exp.Column):
            continue
        else:
            name = output.sql("spark")
        output.replace(exp.alias_(output.copy(), name, quoted=True))


def _add_filter(aggregate: exp.Expr, condition: exp.Expr) -> None:
    """Restrict the rows of an aggregate, besides a FILTER that it may have."""
    clause = aggregate.parent
    if isinstance(clause, exp.Filter):
        clause.set("expression", exp.Where(this=exp.and_(clause.expression.this, condition)))
    else:
        aggregate.replace(exp.Filter(this=aggregate.copy(), expression=exp.Where(this=condition)))
