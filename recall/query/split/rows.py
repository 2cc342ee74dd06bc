"""Plain rows: the first of each piece by some order, then the first of these."""

from collections.abc import Sequence

from sqlglot import exp

from recall.query.shape import Tables, Unsupported
from recall.query.split.model import MERGED_TABLE, Split


def split_rows(query: exp.Select, history: exp.Expr, tables: Tables) -> Split:
    """Take a query without aggregates apart; `history`: the table in FROM that is read piece by piece."""
    limit = query.args.get("limit")
    if (
        limit is None
        or not isinstance(limit.expression, exp.Literal)
        or not limit.expression.is_int
    ):
        raise Unsupported("a recall of plain rows needs a LIMIT", query)
    if any(isinstance(p, exp.Star) or p.is_star for p in query.expressions):
        raise Unsupported("a recall of plain rows names its columns, not *", query)
    order = query.args.get("order")
    entries: Sequence[exp.Expr] = (
        order.expressions if order else [_newest_first(query, history, tables)]
    )
    partial, merge = query.copy(), exp.Select()
    outputs = [
        exp.alias_(p.unalias().copy(), p.alias_or_name or f"_c{i}")
        for i, p in enumerate(query.expressions)
    ]
    made = {p.alias.lower(): p.this for p in outputs}
    keys, merged_order = [], []
    for number, entry in enumerate(entries):
        value = entry.this
        if isinstance(value, exp.Literal) and value.is_int and 0 < int(value.name) <= len(outputs):
            value = outputs[int(value.name) - 1].this
        elif isinstance(value, exp.Column) and not value.table:
            value = made.get(value.name.lower(), value)
        keys.append(exp.alias_(value.copy(), f"_o{number}"))
        merged_order.append(_order_entry(exp.column(f"_o{number}"), entry))
    partial.set("expressions", [*outputs, *keys])
    ordered = [
        _order_entry(key.this.copy(), entry) for entry, key in zip(entries, keys, strict=True)
    ]
    partial.set("order", exp.Order(expressions=ordered))
    merge = merge.select(*(exp.column(p.alias, quoted=True) for p in outputs)).from_(MERGED_TABLE)
    merge.set("order", exp.Order(expressions=merged_order))
    merge.set("limit", limit.copy())
    return Split(partial, merge, limit=int(limit.expression.name))


def _newest_first(query: exp.Select, history: exp.Expr, tables: Tables) -> exp.Expr:
    if not isinstance(history, exp.Table):
        raise Unsupported("a recall of plain rows from a subquery needs an ORDER BY", query)
    time = tables.streams.get(history.name.lower(), "ts")
    return exp.Ordered(this=exp.column(time, table=history.alias_or_name, quoted=True), desc=True)


def _order_entry(value: exp.Expr, like: exp.Expr) -> exp.Expr:
    return exp.Ordered(
        this=value, desc=like.args.get("desc"), nulls_first=like.args.get("nulls_first")
    )
