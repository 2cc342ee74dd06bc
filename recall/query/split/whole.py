"""Queries that cannot be taken apart: evaluated over a growing range of history, each time anew."""

from sqlglot import exp

from recall.query.parsing import Unsupported
from recall.query.split.model import Split
from recall.query.sql_names import MERGED_TABLE, ROW_NUMBER


def keep_whole(query: exp.Query, reason: str) -> Split:
    """The query as its own partial answer. Raises `Unsupported`. `reason`: why it stays whole."""
    select = query if isinstance(query, exp.Select) else _wrap(query)
    names: list[str] = []
    for output in select.expressions:
        if output.is_star:
            continue
        name = output.sql(dialect="spark")
        if isinstance(output, exp.Alias | exp.Column):
            name = output.alias_or_name
        if name.lower() in map(str.lower, names):
            raise Unsupported(f"two columns are named {name}: rename one with AS", output)
        names.append(name)
    columns: list[exp.Expr] = [exp.column(name, quoted=True) for name in names]
    is_ordered = bool(select.args.get("order") or select.args.get("limit"))
    if select.is_star:
        star = exp.Star()
        if is_ordered:
            star.set("except_", [exp.column(ROW_NUMBER)])
        columns = [star]
    merge = exp.select(*columns).from_(MERGED_TABLE)
    if is_ordered:
        merge.set(
            "order",
            exp.Order(expressions=[exp.Ordered(this=exp.column(ROW_NUMBER), nulls_first=True)]),
        )
    return Split(select, merge, whole=reason)


def _wrap(query: exp.Query) -> exp.Select:
    """A set operation as a subquery, with its ORDER BY and LIMIT outside."""
    rows = query.copy()
    order, limit = rows.args.pop("order", None), rows.args.pop("limit", None)
    if rows.args.get("offset"):
        raise Unsupported("OFFSET is not supported in a query about an event", query)
    for key in () if order is None else order.expressions:
        if isinstance(key.this, exp.Literal):
            raise Unsupported("ORDER BY of a set operation must name a column", key)
    select = exp.select("*").from_(rows.subquery("_w"))
    select.set("order", order)
    select.set("limit", limit)
    return select
