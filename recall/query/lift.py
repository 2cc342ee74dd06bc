"""A query about an event, for many events at once.

People write `SELECT avg(cpu) AS mean FROM cpu WHERE host = event.host`, for one event. What runs is one query for a
whole table of pending events: each SELECT carries along which event its rows are for. Tables are joined with the
pending events by time, joins add equality of the event, groups, windows of rows and limits go by event as well. So
fifty events cost about one, and no value ever enters a query as text.

The rewriting is the unnesting of dependent joins (Neumann and Kemper, Unnesting Arbitrary Queries, BTW 2015), for
the part of SQL in which dependence comes through `event.<attribute>` and time alone.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from sqlglot import exp

from recall.query.bind import VALID_FROM, VALID_TO, PhysicalTables, bind_query
from recall.query.parts import (
    EVENT,
    aggregates_of,
    check_plain_groups,
    check_supported,
    event_columns,
    is_inside,
    normalize_aggregates,
    own_nodes,
)
from recall.query.shape import Tables, Unsupported, infer_shape, parse

_NO_LIMIT = (1 << 31) - 1
# Columns of a table of pending events: the event, its time, and the times in which its rows of streams lie.
EID, EVENT_TS, LOW, HIGH = "_eid", "_event_ts", "_low", "_high"


def attribute_column(name: str) -> str:
    """The column of an attribute in a table of pending events."""
    return f"_event_{name}"


@dataclass(frozen=True)
class EventScope:
    """What a query about an event may name: tables, the event's attributes, and tables with rows for each event.

    The latter (`own`: the rule's contexts, surroundings and answers) have a column `_eid`.
    """

    tables: Tables
    attributes: tuple[str, ...]
    event_tables: frozenset[str] = frozenset()


@dataclass(frozen=True)
class QueryInputs:
    """What a query reads. `derived`: streams that only windows of derived streams read, `reach` far back (µs)."""

    streams: frozenset[str] = frozenset()
    derived: frozenset[str] = frozenset()
    relations: frozenset[str] = frozenset()
    event_tables: frozenset[str] = frozenset()
    reach: int = 0
    lag: int = 0
    """How far past a derived row's time its input lies, in microseconds."""
    attribute_filters: tuple[tuple[str, str, str], ...] = ()
    """(stream, column, attribute): of that stream only rows are wanted whose column equals the event's attribute."""


@dataclass(frozen=True)
class TableBindings:
    """The names under which things are read: tables, the inputs of derived streams, and the pending events."""

    tables: PhysicalTables
    derived_inputs: PhysicalTables
    pending_table: str


@dataclass(frozen=True)
class LiftedQuery:
    """The query for many events: columns `_eid`, then those of the query; and what it reads."""

    query: exp.Select
    inputs: QueryInputs

    @cached_property
    def sql(self) -> str:
        """As text for Spark."""
        return self.query.sql(dialect="spark")


def lift_query(
    query: str | exp.Query,
    scope: EventScope,
    bindings: TableBindings,
    number_rows: bool = False,
    rows_in_range: bool = False,
) -> LiftedQuery:
    """The query for all events of a table. `numbered`: where it has an order, a last column `_row` counts by it.

    That table has the columns `_eid`, `_event_ts`, `_low`, `_high`, and `_event_<attribute>` for each attribute; rows
    of streams belong to an event when their time is in [_low, _high). `within`: that holds for all rows there are, and
    is not looked at. Raises `Unsupported`.
    """
    lifting = _Lifter(scope, bindings, number_rows, rows_in_range)
    top = lifting.lift_query(
        normalize_aggregates(parse(query)) if isinstance(query, str) else query.copy(), frozenset()
    )
    outer = exp.select(
        exp.column(EID, quoted=True), exp.Star(except_=lifting.carried_columns())
    ).from_(_subquery(top, "_q"))
    return LiftedQuery(
        outer, replace(lifting.inputs, attribute_filters=lifting.attribute_filters())
    )


@dataclass
class _Lifter:
    """One rewriting: remembers what the query used."""

    scope: EventScope
    bindings: TableBindings
    number_rows: bool = False
    rows_in_range: bool = False
    inputs: QueryInputs = field(default_factory=QueryInputs)
    _stream_equalities: list[tuple[str, frozenset[tuple[str, str]]]] = field(default_factory=list)

    def carried_columns(self) -> list[exp.Expr]:
        """The columns that go along with each row."""
        return [exp.column(name, quoted=True) for name in self._carried_names()]

    def _carried_names(self) -> list[str]:
        return [EID, EVENT_TS, *(attribute_column(name) for name in self.scope.attributes)]

    def lift_query(self, query: exp.Expr, local: frozenset[str]) -> exp.Query:
        """A query that carries the event along in its last columns."""
        if isinstance(query, exp.Subquery):
            if _has_order_or_limit(query):
                raise Unsupported("write ORDER BY and LIMIT inside the brackets", query)
            return self.lift_query(query.this, local)
        with_ = query.args.get("with_")
        if with_ is not None and with_.args.get("recursive"):
            raise Unsupported("WITH RECURSIVE is not supported", query)
        for cte in with_.expressions if with_ is not None else ():
            cte.set("this", self.lift_query(cte.this, local))
            local |= {cte.alias.lower()}
        if isinstance(query, exp.SetOperation):
            if _has_order_or_limit(query):
                raise Unsupported(
                    "put the UNION in brackets in FROM and order or limit outside", query
                )
            for side in ("this", "expression"):
                query.set(side, self.lift_query(query.args[side], local))
            return query
        if not isinstance(query, exp.Select):
            raise Unsupported("one SELECT is wanted here", query)
        return self._lift_select(query, local)

    def _lift_select(self, select: exp.Select, local: frozenset[str]) -> exp.Select:
        check_supported(select)
        _name_outputs(select)
        self._record_equalities(select, local)
        anchor = self._lift_sources(select, local)
        self._expand_stars(select)
        aggregates = list(aggregates_of(select))
        for window in own_nodes(select, exp.Window):
            window.set(
                "partition_by",
                [exp.column(EID, table=anchor, quoted=True), *window.args["partition_by"]],
            )
        for name, column in list(event_columns(select)):
            column.replace(self._event_attribute(name, anchor, column))
        group = select.args.get("group")
        if group is not None:
            check_plain_groups(group)
            group.set("expressions", [*group.expressions, *self._carried_from(anchor)])
        elif aggregates:
            anchor = self._lift_global_aggregate(select, anchor, aggregates)
        carried = [
            exp.alias_(c, n, quoted=True)
            for n, c in zip(self._carried_names(), self._carried_from(anchor), strict=True)
        ]
        select.set("expressions", [*select.expressions, *carried])
        top = self.number_rows and select.parent is None
        return self._lift_limit(select, anchor, top)

    def _carried_from(self, anchor: str) -> list[exp.Column]:
        return [exp.column(name, table=anchor, quoted=True) for name in self._carried_names()]

    def _event_attribute(self, name: str, anchor: str, node: exp.Expr) -> exp.Expr:
        """`event.<name>` as a column of the row at hand."""
        known = {a.lower(): attribute_column(a) for a in self.scope.attributes} | {
            "ts": EVENT_TS,
            "eid": EID,
        }
        if name.lower() not in known:
            raise Unsupported(
                f"the event has no attribute {name!r}; it has {', '.join(sorted(known))}", node
            )
        return exp.column(known[name.lower()], table=anchor, quoted=True)

    def _record_equalities(self, select: exp.Select, local: frozenset[str]) -> None:
        """Remember which equalities hold for each stream of this SELECT."""
        from_ = select.args.get("from_")
        places = [from_.this] if from_ is not None else []
        places += [join.this for join in select.args.get("joins") or ()]
        for place in places:
            name = place.name.lower() if isinstance(place, exp.Table) else ""
            if name not in local and name in self.scope.tables.streams:
                tables = {place.alias_or_name.lower()} | ({""} if len(places) == 1 else set())
                self._stream_equalities.append(
                    (name, frozenset(_attribute_equalities(select, tables)))
                )

    def attribute_filters(self) -> tuple[tuple[str, str, str], ...]:
        """The equalities that hold wherever a stream is read."""
        held: dict[str, frozenset[tuple[str, str]]] = {}
        for name, pairs in self._stream_equalities:
            held[name] = held.get(name, pairs) & pairs
        return tuple(
            (name, *pair) for name, pairs in sorted(held.items()) for pair in sorted(pairs)
        )

    # FROM

    def _lift_sources(self, select: exp.Select, local: frozenset[str]) -> str:
        """Put what carries the event in the place of each table; returns the name of the first."""
        from_ = select.args.get("from_")
        if from_ is None:
            table = exp.alias_(
                exp.to_table(self.bindings.pending_table), "_e", table=True, quoted=True
            )
            select.set("from_", exp.From(this=table))
            return "_e"
        anchor: str = from_.this.alias_or_name
        from_.set("this", self._lift_source(from_.this, local))
        for join in select.args.get("joins") or ():
            name = join.this.alias_or_name
            if join.side in ("RIGHT", "FULL") or join.method:
                raise Unsupported(
                    f"{join.method or join.side} JOIN is not supported in a query about an event",
                    join,
                )
            join.set("this", self._lift_source(join.this, local))
            same = exp.EQ(
                this=exp.column(EID, table=name, quoted=True),
                expression=exp.column(EID, table=anchor, quoted=True),
            )
            using = join.args.get("using")
            if using:
                join.set("using", [*using, exp.to_identifier(EID, quoted=True)])
            else:
                join.set(
                    "on",
                    exp.and_(join.args["on"], same) if join.args.get("on") is not None else same,
                )
                if join.kind == "CROSS":
                    join.set("kind", None)
        return anchor

    def _lift_source(self, node: exp.Expr, local: frozenset[str]) -> exp.Expr:
        alias = node.alias_or_name
        if alias.lower() == EVENT:
            raise Unsupported("no table can be called event: that is the new event", node)
        if isinstance(node, exp.Subquery):
            if not alias:
                raise Unsupported("give the subquery a name: (SELECT …) AS x", node)
            return _subquery(self.lift_query(node.this, local), alias)
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier) or node.db:
            raise Unsupported(
                "FROM names streams, relations, derived streams and the rule's own tables only",
                node,
            )
        name = node.name.lower()
        if name in local:
            return node
        return _subquery(self._lift_table(name, node), alias)

    def _lift_table(self, name: str, node: exp.Expr) -> exp.Select:
        tables = self.scope.tables
        if name in self.scope.event_tables:
            self._record_inputs(event_tables=frozenset({name}))
            return self._join_events(
                self.bindings.tables[name],
                exp.EQ(this=_column("_s", EID), expression=_column("_e", EID)),
                [EID],
            )
        if name in tables.relations:
            self._record_inputs(relations=frozenset({name}))
            holds = exp.and_(
                exp.GTE(this=_column("_e", EVENT_TS), expression=_column("_s", VALID_FROM)),
                exp.LT(this=_column("_e", EVENT_TS), expression=_column("_s", VALID_TO)),
            )
            return self._join_events(self.bindings.tables[name], holds, [VALID_FROM, VALID_TO])
        if name in tables.streams:
            self._record_inputs(streams=frozenset({name}))
            on = exp.true() if self.rows_in_range else _in_time_range(tables.streams[name])
            return self._join_events(self.bindings.tables[name], on, [])
        if name in tables.derived:
            found = infer_shape(tables.derived[name], tables)
            self._record_inputs(
                derived=found.streams, relations=found.relations, reach=found.reach, lag=found.lag
            )
            inner = bind_query(tables.derived[name], tables, self.bindings.derived_inputs)
            return self._join_events(exp.Subquery(this=inner), _in_time_range("ts"), [])
        raise Unsupported(f"unknown table {node.name!r}", node)

    def _join_events(self, source: exp.Expr, on: exp.Expr, without: list[str]) -> exp.Select:
        """Rows of a table, each once for every event that it belongs to."""
        rows: exp.Expr = (
            exp.Star(except_=[exp.column(n, quoted=True) for n in without])
            if without
            else exp.Star()
        )
        columns = [
            exp.Column(this=rows, table=exp.to_identifier("_s")),
            *(_column("_e", n) for n in self._carried_names()),
        ]
        if isinstance(source, exp.Subquery):
            source.set("alias", exp.TableAlias(this=exp.to_identifier("_s")))
        else:
            source = exp.alias_(source, "_s", table=True)
        pending = exp.alias_(exp.to_table(self.bindings.pending_table), "_e", table=True)
        return exp.select(*columns).from_(source).join(pending, on=on)

    def _record_inputs(self, reach: int = 0, lag: int = 0, **names: frozenset[str]) -> None:
        used = self.inputs
        more = {kind: getattr(used, kind) | found for kind, found in names.items()}
        self.inputs = replace(used, reach=max(used.reach, reach), lag=max(used.lag, lag), **more)

    # The rest of a SELECT

    def _expand_stars(self, select: exp.Select) -> None:
        """`*` means the query's own columns, not what is carried along."""
        names = [select.args["from_"].this.alias_or_name]
        names += [join.this.alias_or_name for join in select.args.get("joins") or ()]
        columns: list[exp.Expr] = []
        for column in select.expressions:
            star = (
                column if isinstance(column, exp.Star) else column.this if column.is_star else None
            )
            if star is None or isinstance(column, exp.Count):
                columns.append(column)
                continue
            given = list(star.args.get("except_") or ())
            for name in names if isinstance(column, exp.Star) else [column.table]:
                rest = exp.Star(except_=[*(part.copy() for part in given), *self.carried_columns()])
                columns.append(exp.Column(this=rest, table=exp.to_identifier(name, quoted=True)))
        select.set("expressions", columns)

    def _lift_global_aggregate(
        self, select: exp.Select, anchor: str, aggregates: list[exp.Expr]
    ) -> str:
        """An aggregate over everything has a row also for an event without rows: join from the events."""
        here = _column(anchor, EID)
        for aggregate in aggregates:
            _add_filter(aggregate, exp.Not(this=exp.Is(this=here.copy(), expression=exp.null())))
        on: exp.Expr = exp.EQ(this=here, expression=_column("_p", EID))
        where = select.args.pop("where", None)
        if where is not None:
            on = exp.and_(on, where.this)
        from_, joins = select.args["from_"].this, select.args.pop("joins", None) or []
        tree: exp.Expr = from_
        if joins:
            from_.set("joins", joins)
            tree = exp.Paren(this=from_)
        pending = exp.alias_(exp.to_table(self.bindings.pending_table), "_p", table=True)
        select.set("from_", exp.From(this=pending))
        select.set("joins", [exp.Join(this=tree, side="LEFT", on=on)])
        for column in own_nodes(select, exp.Column):
            # The event's own values are there for each event, its rows only for some.
            if (
                column.table == anchor
                and column.name in self._carried_names()
                and not is_inside(column, (exp.Join, exp.Filter))
            ):
                column.set("table", exp.to_identifier("_p", quoted=True))
        select.set("group", exp.Group(expressions=self._carried_from("_p")))
        return "_p"

    def _lift_limit(self, select: exp.Select, anchor: str, top: bool) -> exp.Select:
        """LIMIT counts for each event; an order without one means nothing but at the top."""
        order, limit = select.args.pop("order", None), select.args.pop("limit", None)
        if select.args.get("offset"):
            raise Unsupported("OFFSET is not supported in a query about an event", select)
        if limit is None and not (top and order):
            return select
        count = limit.expression if limit is not None else exp.Literal.number(_NO_LIMIT)
        if not isinstance(count, exp.Literal) or not count.is_int:
            raise Unsupported("LIMIT takes a number", limit)
        if select.args.get("distinct"):
            raise Unsupported("put SELECT DISTINCT in brackets in FROM and limit outside", limit)
        keys = (
            order.expressions
            if order
            else [exp.Ordered(this=exp.column(EVENT_TS, table=anchor, quoted=True))]
        )
        if top:  # among equals the order is that of the columns: the same answer each time
            keys = [
                *keys,
                *(exp.Ordered(this=p.unalias()) for p in select.expressions if not p.is_star),
            ]
        row = exp.Window(
            this=exp.RowNumber(),
            partition_by=[exp.column(EID, table=anchor, quoted=True)],
            order=exp.Order(expressions=[_resolve_order_key(key, select) for key in keys]),
        )
        select.set("expressions", [*select.expressions, exp.alias_(row, "_row")])
        rest = exp.Star() if top else exp.Star(except_=[exp.column("_row")])
        within = exp.LTE(this=exp.column("_row"), expression=count)
        return exp.select(rest).from_(_subquery(select, "_l")).where(within)


def _attribute_equalities(select: exp.Select, tables: set[str]) -> Iterator[tuple[str, str]]:
    """(column, attribute) for each `column = event.attribute` that must hold."""
    where = select.args.get("where")
    for part in (
        where.this.flatten()
        if where is not None and isinstance(where.this, exp.And)
        else [where and where.this]
    ):
        part = part.unnest() if part is not None else None
        if not isinstance(part, exp.EQ):
            continue
        for one, other in ((part.this, part.expression), (part.expression, part.this)):
            if not isinstance(one, exp.Column) or not isinstance(other, exp.Column):
                continue
            if one.table.lower() in tables and other.table.lower() == EVENT:
                yield one.name, other.name


def _name_outputs(select: exp.Select) -> None:
    """Outputs keep the names that they would have by themselves."""
    for output in select.expressions:
        star = isinstance(output, exp.Star) or output.is_star
        of_event = isinstance(output, exp.Column) and output.table.lower() == EVENT
        if not star and (of_event or not isinstance(output, exp.Alias | exp.Column)):
            output.replace(
                exp.alias_(
                    output.copy(), output.name if of_event else output.sql("spark"), quoted=True
                )
            )


def _resolve_order_key(key: exp.Expr, select: exp.Select) -> exp.Expr:
    """An ORDER BY entry in terms of the rows, where it names an output or its number."""
    assert isinstance(key, exp.Ordered)
    value = key.this
    if (
        isinstance(value, exp.Literal)
        and value.is_int
        and 0 < int(value.name) <= len(select.expressions)
    ):
        value = select.expressions[int(value.name) - 1].unalias()
    elif isinstance(value, exp.Column) and not value.table:
        made = {p.alias.lower(): p.this for p in select.expressions if isinstance(p, exp.Alias)}
        value = made.get(value.name.lower(), value)
    return exp.Ordered(
        this=value.copy(), desc=key.args.get("desc"), nulls_first=key.args.get("nulls_first")
    )


def _add_filter(aggregate: exp.Expr, condition: exp.Expr) -> None:
    parent = aggregate.parent
    if isinstance(parent, exp.Filter):
        parent.set("expression", exp.Where(this=exp.and_(parent.expression.this, condition)))
    else:
        aggregate.replace(exp.Filter(this=aggregate.copy(), expression=exp.Where(this=condition)))


def _has_order_or_limit(query: exp.Expr) -> bool:
    return any(query.args.get(part) for part in ("order", "limit", "offset"))


def _subquery(query: exp.Query, alias: str) -> exp.Subquery:
    return exp.Subquery(
        this=query, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
    )


def _column(table: str, name: str) -> exp.Column:
    return exp.column(name, table=table, quoted=True)


def _in_time_range(time: str) -> exp.Expr:
    moment = _column("_s", time)
    return exp.and_(
        exp.GTE(this=moment, expression=_column("_e", LOW)),
        exp.LT(this=moment.copy(), expression=_column("_e", HIGH)),
    )


def tables_used(sql: str, names: Collection[str]) -> frozenset[str]:
    """Which of some tables a query names."""
    return frozenset(
        t.name.lower() for t in parse(sql).find_all(exp.Table) if t.name.lower() in names
    )
