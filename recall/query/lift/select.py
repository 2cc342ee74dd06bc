"""SELECTs of a query about an event, rewritten so that each row carries its event."""

from collections.abc import Collection, Iterator

from sqlglot import exp

from recall.query.extra import exclude_columns
from recall.query.lift.model import AttributeFilter, EventScope, QueryInputs, TableBindings
from recall.query.lift.ordering import has_order_or_limit, lift_limit
from recall.query.lift.tables import (
    RowEvent,
    TableLifter,
    carried_names,
    named_subquery,
    quoted_column,
)
from recall.query.parsing import Unsupported
from recall.query.parts import (
    aggregates_of,
    check_supported,
    check_table_alias,
    common_tables,
    event_columns,
    is_inside,
    joins_of,
    own_nodes,
    own_subqueries,
    sources_of,
    visible_sources_of,
)
from recall.query.sql_names import EID, EVENT, EVENT_TS, EXTRA, attribute_column
from recall.query.wrapping import expand_group_by_all, isolate_where, separate_groups, wrap_ordered

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

    def _carried_columns_of(self, event: RowEvent) -> list[exp.Expr]:
        return [event.column(name) for name in carried_names(self._scope)]

    def lift(self, query: exp.Expr, local_tables: frozenset[str]) -> exp.Query:
        """The query with the event in its last columns. `local_tables`: names of visible CTEs."""
        return self._lift_query(query, local_tables, None)

    def _lift_query(
        self, query: exp.Expr, local_tables: frozenset[str], outer: RowEvent | None
    ) -> exp.Query:
        """`outer`: that of the row around a subquery in an expression, which reads its rows alone.

        Such a subquery has no columns that carry the event.
        """
        if isinstance(query, exp.Subquery):
            if has_order_or_limit(query):
                raise Unsupported("write ORDER BY and LIMIT inside the parentheses", query)
            return self._lift_query(query.this, local_tables, outer)
        with_ = query.args.get("with_")
        if with_ is not None and with_.args.get("recursive"):
            raise Unsupported(
                "WITH RECURSIVE is not supported; write a join for each step, up to the last one that "
                "matters",
                query,
            )
        for cte in common_tables(query):
            cte.set("this", self.lift(cte.this, local_tables))
            local_tables |= {cte.alias.lower()}
        if isinstance(query, exp.SetOperation):
            if outer is None and has_order_or_limit(query):
                return self._lift_wrapped(wrap_ordered(query), query, local_tables)
            for side in ("this", "expression"):
                query.set(side, self._lift_query(query.args[side], local_tables, outer))
            return query
        if not isinstance(query, exp.Select):
            raise Unsupported("expected a single SELECT statement", query)
        if outer is not None:
            return self._lift_inner(query, local_tables, outer)
        return self._lift_select(query, local_tables)

    def _lift_select(self, select: exp.Select, local_tables: frozenset[str]) -> exp.Select:
        is_outermost = select.parent is None
        check_supported(select)
        expand_group_by_all(select)
        _name_outputs(select)
        if select.args.get("distinct") and has_order_or_limit(select):
            return self._lift_wrapped(wrap_ordered(select), select, local_tables)
        separated = separate_groups(select)
        if separated is not None:
            return self._lift_wrapped(separated, select, local_tables)
        isolate_where(select)
        event = self._prepare(select, local_tables)
        aggregates = list(aggregates_of(select))
        for window in own_nodes(select, exp.Window):
            window.set("partition_by", [event.column(EID), *window.args["partition_by"]])
        subqueries = own_subqueries(select)
        for attribute, column in list(_own_event_columns(select)):
            column.replace(self._event_column(attribute, event, column))
        is_global = bool(aggregates) and not select.args.get("group")
        for subquery in subqueries:
            is_output = is_global and not is_inside(subquery, (exp.Where, exp.Join))
            self._lift_subquery(
                subquery, local_tables, RowEvent((_ALL_EVENTS,)) if is_output else event
            )
        group = select.args.get("group")
        if group is not None:
            _add_group_keys(group, self._carried_columns_of(event))
        elif is_global:
            self._lift_global_aggregate(select, event, aggregates)
            event = RowEvent((_ALL_EVENTS,))
        outputs = list(select.expressions)
        for name in carried_names(self._scope):
            outputs.append(exp.alias_(event.column(name), name, quoted=True))
        select.set("expressions", outputs)
        return lift_limit(select, event, self._number_rows and is_outermost)

    def _lift_wrapped(
        self, wrapped: exp.Select, query: exp.Query, local_tables: frozenset[str]
    ) -> exp.Select:
        """Lift what takes the place of a query, whose CTEs are lifted already."""
        wrapped.parent = query.parent  # whether it is the outermost one
        return self._lift_select(wrapped, local_tables)

    def _prepare(self, select: exp.Select, local_tables: frozenset[str]) -> RowEvent:
        """Replace the tables of a SELECT by those that carry the event; returns that of its rows."""
        self._record_equalities(select, local_tables)
        exclude_columns(select, self._hidden_columns(select, local_tables))
        event = self._lift_sources(select, local_tables)
        self._expand_stars(select)
        return event

    # Subqueries in expressions

    def _lift_subquery(self, node: exp.Expr, local_tables: frozenset[str], outer: RowEvent) -> None:
        """Lift the query of EXISTS, IN or a scalar subquery, in place."""
        key = "query" if isinstance(node, exp.In) else "this"
        lifted = self._lift_query(node.args[key], local_tables, outer)
        if isinstance(node, exp.In):
            lifted = exp.Subquery(this=lifted)
        node.set(key, lifted)

    def _lift_inner(
        self, select: exp.Select, local_tables: frozenset[str], outer: RowEvent
    ) -> exp.Select:
        """A subquery in an expression, or LATERAL: it reads the rows of the outer row's event.

        So windows, groups and limits in it need not be divided by events.
        """
        check_supported(select)
        expand_group_by_all(select)
        event = outer
        if select.args.get("from_") is not None:
            event = self._prepare(select, local_tables)
            same_event = exp.EQ(this=event.column(EID), expression=outer.column(EID))
            select.where(same_event, copy=False)
        group = select.args.get("group")
        if group is None and any(aggregates_of(select)):
            for attribute, column in list(_own_event_columns(select)):
                is_row = is_inside(column, (exp.Where, exp.Join, exp.AggFunc))
                column.replace(self._event_column(attribute, event if is_row else outer, column))
        for attribute, column in list(_own_event_columns(select)):
            column.replace(self._event_column(attribute, event, column))
        if group is not None:
            _add_group_keys(group, self._carried_columns_of(event))
        for subquery in own_subqueries(select):
            self._lift_subquery(subquery, local_tables, event)
        return select

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

    def _event_column(self, attribute: str, event: RowEvent, node: exp.Expr) -> exp.Expr:
        """`event.<attribute>` as a column of the row. Raises `Unsupported` for an unknown one."""
        columns = {name.lower(): attribute_column(name) for name in self._scope.attributes}
        columns["ts"] = EVENT_TS
        columns["eid"] = EID
        if attribute.lower() not in columns:
            available = ", ".join(sorted(columns))
            raise Unsupported(
                f"the event has no attribute {attribute!r}; available: {available}", node
            )
        return event.column(columns[attribute.lower()])

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

    def _lift_sources(self, select: exp.Select, local_tables: frozenset[str]) -> RowEvent:
        """Replace each table by one that carries the event; returns that of the rows."""
        from_ = select.args.get("from_")
        if from_ is None:
            pending = exp.to_table(self._bindings.pending_table)
            table = exp.alias_(pending, _EVENTS, table=True, quoted=True)
            select.set("from_", exp.From(this=table))
            return RowEvent((_EVENTS,))
        event = RowEvent((from_.this.alias_or_name,))
        from_.set("this", self._lift_source(from_.this, local_tables, event))
        for join in joins_of(select):
            event = self._lift_join(join, event, local_tables)
        return event

    def _lift_join(self, join: exp.Join, event: RowEvent, local_tables: frozenset[str]) -> RowEvent:
        """Join by the event, too. `event`: of the rows before; returns that of the joined rows."""
        own_event = RowEvent((join.this.alias_or_name,))
        if join.method:
            raise Unsupported(
                f"{join.method} JOIN is not supported in a query about an event; write the columns: "
                "JOIN … USING (column)",
                join,
            )
        is_lateral = isinstance(join.this, exp.Lateral)
        join.set("this", self._lift_source(join.this, local_tables, event))
        if is_lateral:
            return event
        if join.args.get("using"):
            join.set("using", [*join.args["using"], exp.to_identifier(EID, quoted=True)])
        else:
            condition: exp.Expr = exp.EQ(this=own_event.column(EID), expression=event.column(EID))
            if join.args.get("on") is not None:
                condition = exp.and_(join.args["on"], condition)
            join.set("on", condition)
            if join.kind == "CROSS":
                join.set("kind", None)
        if join.side == "RIGHT":
            return own_event
        if join.side == "FULL":
            return RowEvent((*event.aliases, *own_event.aliases))
        return event

    def _lift_source(
        self, node: exp.Expr, local_tables: frozenset[str], outer: RowEvent
    ) -> exp.Expr:
        """`outer`: of the rows that LATERAL refers to."""
        alias = node.alias_or_name
        if alias.lower() == EVENT:
            raise Unsupported("event is reserved for the new event; use another table name", node)
        check_table_alias(node)
        if isinstance(node, exp.Subquery):
            if not alias:
                raise Unsupported("name the subquery: (SELECT …) AS x", node)
            return named_subquery(self.lift(node.this, local_tables), alias)
        if isinstance(node, exp.Lateral) and isinstance(node.this, exp.Subquery):
            if not alias:
                raise Unsupported("name the subquery: LATERAL (SELECT …) AS x", node)
            self._lift_subquery(node.this, local_tables, outer)
            return node
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier) or node.db:
            raise Unsupported(
                "FROM supports only streams, relations, derived streams, tables of the rule, "
                "subqueries and LATERAL VIEW",
                node,
            )
        name = node.name.lower()
        if name in local_tables:
            return node
        return named_subquery(self._tables.lift(name, node), alias)

    # The other clauses

    def _expand_stars(self, select: exp.Select) -> None:
        """Replace `*` by the query's own columns, without those that carry the event."""
        sources = visible_sources_of(select)
        aliases = [source.alias_or_name for source in sources]
        # These have no columns that carry the event.
        laterals = {source.alias_or_name for source in sources if isinstance(source, exp.Lateral)}
        outputs: list[exp.Expr] = []
        for output in select.expressions:
            if not output.is_star:
                outputs.append(output)
            elif isinstance(output, exp.Star):
                for alias in aliases:
                    outputs.append(self._own_columns(output, alias, alias in laterals))
            else:
                is_lateral = output.table in laterals
                outputs.append(self._own_columns(output.this, output.table, is_lateral))
        select.set("expressions", outputs)

    def _own_columns(self, star: exp.Expr, alias: str, is_lateral: bool) -> exp.Expr:
        excluded: list[exp.Expr] = []
        for column in star.args.get("except_") or ():
            if column.table.lower() in ("", alias.lower()):
                excluded.append(exp.column(column.name, quoted=True))
        if not is_lateral:
            excluded += self.carried_columns()
        own_columns = exp.Star(except_=excluded) if excluded else exp.Star()
        return exp.Column(this=own_columns, table=exp.to_identifier(alias, quoted=True))

    def _lift_global_aggregate(
        self, select: exp.Select, event: RowEvent, aggregates: list[exp.Expr]
    ) -> None:
        """Left-join from the events: an aggregate without GROUP BY has a row for each of them."""
        row_event = event.column(EID)
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
        self._read_event_from_pending(select, event)
        all_columns = self._carried_columns_of(RowEvent((_ALL_EVENTS,)))
        select.set("group", exp.Group(expressions=all_columns))

    def _read_event_from_pending(self, select: exp.Select, event: RowEvent) -> None:
        """Take the event's own values from the pending events: not every event has rows."""
        for name in carried_names(self._scope):
            row_column = event.column(name)
            for node in own_nodes(select, type(row_column)):
                if node == row_column and not is_inside(node, (exp.Join, exp.Filter)):
                    node.replace(quoted_column(_ALL_EVENTS, name))


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


def _own_event_columns(select: exp.Select) -> Iterator[tuple[str, exp.Column]]:
    """Each `event.<attribute>` of a SELECT outside of its subqueries, with the attribute's name."""
    for attribute, column in event_columns(select):
        if column.find_ancestor(exp.Select) is select:
            yield attribute, column


def _add_group_keys(group: exp.Expr, carried: list[exp.Expr]) -> None:
    """Group by the event, too, in every grouping set: first, so that `grouping_id` stays as it is."""
    keys = list(group.expressions)
    for clause in ("rollup", "cube", "grouping_sets"):
        for node in group.args.pop(clause, None) or ():
            # As in GROUP BY a, b WITH ROLLUP, and GROUP BY a, b GROUPING SETS (…).
            keys = [type(node)(expressions=node.expressions or keys)]
    group.set("expressions", [*carried, *keys])


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
