"""Queries of plain rows: the first rows of each piece by some order, then the first of these."""

from collections.abc import Sequence

from sqlglot import exp

from recall.query.parsing import Unsupported
from recall.query.parts import resolve_output
from recall.query.shape import Tables
from recall.query.split.model import Split
from recall.query.sql_names import MERGED_TABLE, order_column


def split_rows(query: exp.Select, history: exp.Expr, tables: Tables) -> Split:
    """Take a query without aggregates apart. Raises `Unsupported`.

    `history`: the source in FROM that is read piece by piece.
    """
    limit = query.args.get("limit")
    if limit is None or not _is_integer(limit.expression):
        raise Unsupported("a recall of plain rows requires a LIMIT", query)
    if query.is_star:
        raise Unsupported("* is not supported in a recall of plain rows; name the columns", query)
    outputs = []
    for number, output in enumerate(query.expressions):
        name = output.alias_or_name or f"_c{number}"
        outputs.append(exp.alias_(output.unalias().copy(), name))
    order_keys: list[exp.Expr] = []
    partial_order: list[exp.Expr] = []
    merge_order: list[exp.Expr] = []
    order_entries = _order_entries(query, history, tables)
    for number, entry in enumerate(order_entries):
        value = resolve_output(entry.this, outputs)
        key_column = order_column(number)
        order_keys.append(exp.alias_(value.copy(), key_column))
        partial_order.append(_ordered_like(entry, value.copy()))
        merge_order.append(_ordered_like(entry, exp.column(key_column)))
    partial = query.copy()
    partial.set("expressions", [*outputs, *order_keys])
    partial.set("order", exp.Order(expressions=partial_order))
    merged_columns = [exp.column(output.alias, quoted=True) for output in outputs]
    merge = exp.select(*merged_columns).from_(MERGED_TABLE)
    merge.set("order", exp.Order(expressions=merge_order))
    merge.set("limit", limit.copy())
    return Split(
        partial,
        merge,
        limit=int(limit.expression.name),
        newest_first=bool(order_entries[0].args.get("desc"))
        and _is_time(resolve_output(order_entries[0].this, outputs), history, tables),
    )


def _is_integer(node: exp.Expr) -> bool:
    return isinstance(node, exp.Literal) and bool(node.is_int)


def _order_entries(query: exp.Select, history: exp.Expr, tables: Tables) -> Sequence[exp.Expr]:
    """The entries of ORDER BY; without it, newest rows first."""
    order = query.args.get("order")
    if order:
        entries: list[exp.Expr] = order.expressions
        return entries
    if not isinstance(history, exp.Table):
        raise Unsupported("a recall of plain rows from a subquery requires an ORDER BY", query)
    time_column = tables.streams.get(history.name.lower(), "ts")
    time = exp.column(time_column, table=history.alias_or_name, quoted=True)
    return [exp.Ordered(this=time, desc=True)]


def _is_time(value: exp.Expr, history: exp.Expr, tables: Tables) -> bool:
    """Whether a value is the time of the rows of history."""
    if not isinstance(history, exp.Table) or not isinstance(value, exp.Column):
        return False
    time_column = tables.streams.get(history.name.lower(), "ts")
    return value.name.lower() == time_column.lower() and value.table.lower() in (
        "",
        history.alias_or_name.lower(),
    )


def _ordered_like(entry: exp.Expr, value: exp.Expr) -> exp.Expr:
    """An ORDER BY entry of a value, with the direction of another entry."""
    return exp.Ordered(
        this=value, desc=entry.args.get("desc"), nulls_first=entry.args.get("nulls_first")
    )
