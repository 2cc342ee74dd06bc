"""Queries written with a further SELECT around or inside of them, where it means the same. No I/O."""

from sqlglot import exp

from recall.query.parsing import Unsupported
from recall.query.parts import (
    aggregates_of,
    aliased_outputs,
    is_inside,
    own_nodes,
    own_subqueries,
    resolve_output,
)
from recall.query.sql_names import EVENT

_ORDERING = ("order", "limit", "offset")
_QUALIFIED = "_q"  # the output that says whether a row meets QUALIFY


def wrap_ordered(query: exp.Query) -> exp.Select:
    """A set operation or SELECT DISTINCT in FROM, with its ORDER BY, LIMIT and OFFSET outside.

    Outputs must have names. Raises `Unsupported` for an order by other things than outputs.
    """
    rows = query.copy()
    clauses = {name: rows.args.pop(name, None) for name in _ORDERING}
    with_ = rows.args.pop("with_", None)
    order = clauses["order"]
    for key in () if order is None else order.expressions:
        key.set("this", _find_output(key.this, rows))
    select = exp.select("*").from_(rows.subquery("_w"))
    for name, clause in clauses.items():
        select.set(name, clause)
    select.set("with_", with_)
    return select


def _find_output(key: exp.Expr, rows: exp.Query) -> exp.Expr:
    """The output that an entry of ORDER BY names by its number, its name or its expression."""
    outputs = rows.selects
    if isinstance(key, exp.Literal) and key.is_int and 0 < int(key.name) <= len(outputs):
        return exp.column(outputs[int(key.name) - 1].alias_or_name, quoted=True)
    for output in outputs:
        if isinstance(rows, exp.Select) and output.unalias() == key and output.alias_or_name:
            return exp.column(output.alias_or_name, quoted=True)
    names = {output.alias_or_name.lower() for output in outputs}
    for column in key.find_all(exp.Column):
        if column.table.lower() == EVENT:
            continue
        if column.table or (column.name.lower() not in names and not rows.is_star):
            raise Unsupported(
                "ORDER BY of a set operation, of SELECT DISTINCT and of QUALIFY must name outputs "
                "of the query",
                column,
            )
    return key


def expand_qualify(query: exp.Query) -> exp.Query:
    """The query with WHERE around a SELECT in place of its QUALIFY, in place. Raises `Unsupported`."""
    for select in reversed(list(query.find_all(exp.Select))):
        if select.args.get("qualify") is None:
            continue
        _inline_aliases(select, "qualify")
        condition = select.args.pop("qualify").this
        for output in select.expressions:
            if not output.is_star and not output.alias_or_name:
                name = output.sql(dialect="spark")
                output.replace(exp.alias_(output.copy(), name, quoted=True))
        rows = select.copy()
        rows.select(exp.alias_(condition, _QUALIFIED), copy=False)
        wrapped = wrap_ordered(rows)
        wrapped.set("expressions", [exp.Star(except_=[exp.column(_QUALIFIED)])])
        wrapped.where(exp.column(_QUALIFIED), copy=False)
        if select.parent is None:
            return wrapped
        select.replace(wrapped)
    return query


def isolate_where(select: exp.Select) -> None:
    """Put FROM and WHERE of a SELECT with aggregates into a subquery, in place.

    Does nothing unless the SELECT has no groups and its WHERE has subqueries: aggregates without
    groups are joined with the events by a condition that includes WHERE, where none are possible.
    """
    where = select.args.get("where")
    if where is None or select.args.get("group") or not any(aggregates_of(select)):
        return
    if not any(is_inside(node, (exp.Where,)) for node in own_subqueries(select)):
        return
    aliases = aliased_outputs(select.expressions)
    names: dict[str, str] = {}
    outputs: list[exp.Expr] = []
    for column in own_nodes(select, exp.Column):
        if is_inside(column, (exp.Where, exp.From, exp.Join, exp.Lateral, exp.Lambda)):
            continue
        if column.table.lower() == EVENT:
            continue
        is_alias = not column.table and column.name.lower() in aliases
        if is_alias and is_inside(column, (exp.Having, exp.Order)):
            continue
        text = column.sql(dialect="spark")
        if text not in names:
            names[text] = f"_c{len(names)}"
            outputs.append(exp.alias_(column.copy(), names[text]))
        column.replace(exp.column(names[text], table="_i"))
    rows = exp.Select(expressions=outputs or [exp.alias_(exp.Literal.number(1), "_c0")])
    for name in ("from_", "joins", "laterals", "where"):
        rows.set(name, select.args.pop(name, None))
    select.set("from_", exp.From(this=rows.subquery("_i")))


def separate_groups(select: exp.Select) -> exp.Select | None:
    """The query with its groups and aggregates in a subquery, whose columns its outputs read.

    None unless it has groups or aggregates, and subqueries among its outputs, in HAVING or ORDER BY:
    these would have to be grouped by. Outputs must have names.
    """
    inner_clauses = (exp.Where, exp.Join, exp.AggFunc)
    if all(is_inside(node, inner_clauses) for node in own_subqueries(select)):
        return None
    if select.args.get("group") is None and not any(aggregates_of(select)):
        return None
    inner, outer = select.copy(), select.copy()
    for name in (*_ORDERING, "having", "distinct", "with_"):
        inner.set(name, None)
    for name in ("from_", "joins", "laterals", "where", "group"):
        outer.set(name, None)
    _inline_aliases(outer, "having", "order")
    columns: dict[str, exp.Column] = {}
    outputs: list[exp.Expr] = []

    def add(value: exp.Expr) -> exp.Column:
        text = value.sql(dialect="spark").lower()
        if text not in columns:
            columns[text] = exp.column(f"_g{len(columns)}", table="_g")
            outputs.append(exp.alias_(value.copy(), columns[text].name))
        return columns[text].copy()

    for aggregate in list(aggregates_of(outer)):
        clause = aggregate.parent if isinstance(aggregate.parent, exp.Filter) else aggregate
        clause.replace(add(clause))
    for key in _write_out_keys(inner, select.expressions):
        add(key)
    clauses = [*outer.expressions, *filter(None, map(outer.args.get, ("having", "order")))]
    for clause in clauses:
        for node in list(clause.walk()):
            column = columns.get(node.sql(dialect="spark").lower())
            if column is not None and node.parent is not None and _is_outside(node, outer):
                is_output = isinstance(node, exp.Column) and node.parent is outer
                new = exp.alias_(column.copy(), node.alias_or_name) if is_output else column.copy()
                node.replace(new)
    inner.set("expressions", outputs or [exp.alias_(exp.Literal.number(1), "_g0")])
    outer.set("from_", exp.From(this=inner.subquery("_g")))
    having = outer.args.pop("having", None)
    if having is not None:
        outer.set("where", exp.Where(this=having.this))
    return outer


def _is_outside(node: exp.Expr, outer: exp.Select) -> bool:
    """Whether a text in a query means what it does outside of its subqueries."""
    if node.find_ancestor(exp.Select) is outer:
        return True
    names = list(node.find_all(exp.Column))
    return bool(names) and all(name.table for name in names)


def _inline_aliases(select: exp.Select, *clauses: str) -> None:
    """Replace aliases of outputs in some clauses by what they stand for, in place."""
    expressions = aliased_outputs(select.expressions)
    for clause in filter(None, map(select.args.get, clauses)):
        for column in list(clause.find_all(exp.Column)):
            expression = expressions.get(column.name.lower())
            is_own = column.find_ancestor(exp.Select) is select
            if expression is not None and is_own and not column.table:
                column.replace(exp.paren(expression.copy()))


def _write_out_keys(select: exp.Select, outputs: list[exp.Expr]) -> list[exp.Expr]:
    """The expressions that a SELECT groups by, in which no entry names an output any more."""
    group = select.args.get("group")
    if group is None:
        return []
    keys = [resolve_output(key, outputs).copy() for key in group.expressions]
    group.set("expressions", keys)
    leaves: list[exp.Expr] = []
    pending = [*keys]
    for name in ("rollup", "cube", "grouping_sets"):
        pending += group.args.get(name) or ()
    while pending:
        key = pending.pop(0)
        if isinstance(key, exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple):
            pending += key.expressions
        else:
            leaves.append(key.unnest())
    return leaves


def expand_group_by_all(select: exp.Select) -> None:
    """Write out GROUP BY ALL, in place: all outputs without aggregates."""
    group = select.args.get("group")
    if group is None or not group.args.get("all"):
        return
    keys: list[exp.Expr] = []
    within = {id(node) for node in aggregates_of(select)}
    for output in select.expressions:
        if output.is_star:
            raise Unsupported("* cannot be selected with GROUP BY ALL; name the columns", output)
        value = output.unalias()
        if not any(id(node) in within for node in value.walk()) and list(
            value.find_all(exp.Column)
        ):
            keys.append(value.copy())
    group.set("all", None)
    group.set("expressions", keys)
    if not keys:
        select.set("group", None)
