"""EXISTS (SELECT …) and IN (SELECT …) in WHERE, rewritten as joins that keep or drop rows. No I/O.

`WHERE EXISTS (SELECT 1 FROM b WHERE b.x = a.x AND b.y > 3)` becomes `LEFT SEMI JOIN (SELECT b.x AS
_k0 FROM b WHERE b.y > 3) AS _x0 ON _x0._k0 = a.x`; NOT EXISTS an ANTI JOIN. So the tables of the
subquery are read like those in FROM.
"""

from collections.abc import Iterator, Sequence
from itertools import count

from sqlglot import exp

from recall.errors import RecallError
from recall.query.parts import (
    aggregates_of,
    common_tables,
    joins_of,
    own_nodes,
    own_subqueries,
    sources_of,
)
from recall.query.sql_names import EVENT

_NOT_PLAIN = ("group", "having", "distinct", "limit", "offset", "order", "with_", "qualify")
_VALUE = "_v"  # the output of a subquery in IN
_HAS_NULL = "_u"  # whether one of the values of a subquery in NOT IN is NULL


class _NoJoin(RecallError):
    """A condition that no join means: its subquery is evaluated where it stands."""


def join_subqueries(query: exp.Query) -> exp.Query:
    """The query with joins in place of EXISTS and IN, in place. Raises `Unsupported`.

    They may be conditions of WHERE that all rows must meet; others stay as they are.
    """
    names = map("_x{}".format, count())
    # Inner queries first: those of a subquery are part of it.
    for select in reversed(list(query.find_all(exp.Select))):
        where = select.args.get("where")
        if where is None:
            continue
        remaining: list[exp.Expr] = []
        for condition in _conjuncts(where.this):
            joins = _make_joins(condition, names)
            if not joins:
                remaining.append(condition)
            for join in joins:
                select.append("joins", join)
        if len(remaining) < len(list(_conjuncts(where.this))):
            select.set("where", None)
            if remaining:
                select.set("where", exp.Where(this=exp.and_(*remaining)))
    return query


def _conjuncts(condition: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(condition, exp.And):
        yield from condition.flatten()
    else:
        yield condition


def _make_joins(condition: exp.Expr, names: Iterator[str]) -> list[exp.Join]:
    """The joins that a condition means; none: it is another one, or has no such joins."""
    node = condition.copy().unnest()
    is_negated = isinstance(node, exp.Not)
    if is_negated:
        node = node.this.unnest()
    value: exp.Expr | None = None
    if isinstance(node, exp.Exists) and isinstance(node.this, exp.Query):
        rows = node.this.unnest()
    elif isinstance(node, exp.In) and node.args.get("query") is not None:
        rows, value = node.args["query"].unnest(), node.this
    else:
        return []
    assert isinstance(rows, exp.Query)
    try:
        return _join_rows(rows, value, is_negated, names)
    except _NoJoin:
        return []


def _join_rows(
    rows: exp.Query, value: exp.Expr | None, is_negated: bool, names: Iterator[str]
) -> list[exp.Join]:
    """`value`: of IN. Raises `_NoJoin` if there are none."""
    if isinstance(value, exp.Tuple):
        raise _NoJoin
    if isinstance(rows, exp.Select) and own_subqueries(rows):
        raise _NoJoin
    name = next(names)
    if isinstance(rows, exp.Select) and _is_plain(rows):
        conditions = _export_columns(rows, name, value is not None)
    else:
        _check_independent(rows)
        conditions = []
        if value is not None:
            rows = _name_value(rows)
    joins: list[exp.Join] = []
    if is_negated and value is not None:
        joins.append(_join_unknown(rows, value, conditions, name, next(names)))
    if value is not None:
        conditions.append(exp.EQ(this=value, expression=exp.column(_VALUE, table=name)))
    return [*joins, _join(rows, name, is_negated, conditions)]


def _join(rows: exp.Query, name: str, is_negated: bool, conditions: Sequence[exp.Expr]) -> exp.Join:
    alias = exp.TableAlias(this=exp.to_identifier(name))
    return exp.Join(
        this=exp.Subquery(this=rows, alias=alias),
        side="LEFT",
        kind="ANTI" if is_negated else "SEMI",
        on=exp.and_(*conditions) if conditions else exp.true(),
    )


def _join_unknown(
    rows: exp.Query, value: exp.Expr, conditions: Sequence[exp.Expr], name: str, new_name: str
) -> exp.Join:
    """The rows for which NOT IN is NULL: the value, or one of those compared with it, is NULL.

    `conditions`: on the columns of `rows` under `name`. These are grouped, so that no row is
    compared with each of them.
    """
    constant = exp.alias_(exp.Literal.number(1), "_g")
    copied = exp.select("*", constant).from_(rows.copy().subquery("_n"))
    keys = {"_g"}
    own_conditions = []
    for condition in conditions:
        own_condition = condition.copy()
        for column in own_condition.find_all(exp.Column):
            if column.table == name:
                column.set("table", exp.to_identifier(new_name))
                keys.add(column.name)
        own_conditions.append(own_condition)
    columns = [exp.column(key) for key in sorted(keys)]
    is_null = exp.Is(this=exp.column(_VALUE), expression=exp.null())
    groups = exp.select(*columns, exp.alias_(exp.LogicalOr(this=is_null), _HAS_NULL))
    groups = groups.from_(copied.subquery("_m")).group_by(*[column.copy() for column in columns])
    value_is_null = exp.Is(this=exp.paren(value.copy()), expression=exp.null())
    is_unknown = exp.or_(value_is_null, exp.column(_HAS_NULL, table=new_name))
    return _join(groups, new_name, True, [*own_conditions, is_unknown])


def _is_plain(select: exp.Select) -> bool:
    """Whether each row of a SELECT is one of its sources."""
    if any(map(select.args.get, _NOT_PLAIN)) or own_nodes(select, exp.Window):
        return False
    return not any(aggregates_of(select))


def _export_columns(select: exp.Select, name: str, has_value: bool) -> list[exp.Expr]:
    """Take the conditions on outer tables out of a plain SELECT, and select what they need.

    Returns them as conditions on the SELECT under its name.
    """
    own = {source.alias_or_name.lower() for source in sources_of(select)}
    where = select.args.get("where")
    inner: list[exp.Expr] = []
    outer: list[exp.Expr] = []
    for condition in () if where is None else _conjuncts(where.this):
        (outer if _outer_columns(condition, own) else inner).append(condition)
    outputs: list[exp.Expr] = []
    if has_value:
        outputs.append(exp.alias_(_single_output(select).copy(), _VALUE))
    for join in joins_of(select):
        if join.args.get("on") is not None and _outer_columns(join.args["on"], own):
            raise _NoJoin
    for output in outputs:
        if _outer_columns(output, own):
            raise _NoJoin
    columns: dict[str, str] = {}
    for condition in outer:
        for column in list(condition.find_all(exp.Column)):
            if column.table and column.table.lower() not in own:
                continue
            text = column.sql(dialect="spark")
            if text not in columns:
                columns[text] = f"_k{len(columns)}"
                outputs.append(exp.alias_(column.copy(), columns[text]))
            column.replace(exp.column(columns[text], table=name))
    select.set("where", exp.Where(this=exp.and_(*inner)) if inner else None)
    select.set("expressions", outputs or [exp.alias_(exp.Literal.number(1), "_k0")])
    return outer


def _outer_columns(node: exp.Expr, own: set[str]) -> list[exp.Column]:
    """The columns of other tables than a query's own."""
    return [
        column
        for column in node.find_all(exp.Column)
        if column.table and column.table.lower() not in {*own, EVENT}
    ]


def _check_independent(rows: exp.Query) -> None:
    """Raises `_NoJoin` if a query names tables that it does not read."""
    own = {cte.alias.lower() for cte in common_tables(rows)}
    for select in rows.find_all(exp.Select):
        own |= {source.alias_or_name.lower() for source in sources_of(select)}
    outer = _outer_columns(rows, own)
    if outer:
        raise _NoJoin


def _single_output(query: exp.Query) -> exp.Expr:
    outputs = query.selects
    if len(outputs) != 1 or outputs[0].is_star:
        raise _NoJoin
    output: exp.Expr = outputs[0]
    return output.unalias()


def _name_value(rows: exp.Query) -> exp.Query:
    """A query in IN with the name of its output."""
    output = _single_output(rows)
    if isinstance(rows, exp.Select):
        rows.set("expressions", [exp.alias_(output.copy(), _VALUE)])
        return rows
    name = rows.selects[0].alias_or_name
    if not name:
        raise _NoJoin
    return exp.select(exp.alias_(exp.column(name), _VALUE)).from_(rows.subquery("_w"))
