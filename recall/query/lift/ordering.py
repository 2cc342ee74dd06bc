"""ORDER BY and LIMIT of a query about an event, counted for each event."""

from sqlglot import exp

from recall.query.lift.tables import named_subquery
from recall.query.parsing import Unsupported
from recall.query.parts import resolve_output
from recall.query.sql_names import EID, EVENT_TS, ROW_NUMBER

_NO_LIMIT = (1 << 31) - 1  # rows: the largest number that LIMIT takes


def has_order_or_limit(query: exp.Expr) -> bool:
    """Whether a query has ORDER BY, LIMIT or OFFSET."""
    return any(map(query.args.get, ("order", "limit", "offset")))


def lift_limit(select: exp.Select, event_alias: str, keep_row_number: bool) -> exp.Select:
    """The SELECT with its LIMIT applied for each event. Raises `Unsupported`.

    `event_alias`: the table that carries the event. `keep_row_number`: the query is the outermost
    one, and its order is kept as a column `_row`; an order without a limit means nothing elsewhere.
    """
    order = select.args.pop("order", None)
    limit = select.args.pop("limit", None)
    if select.args.get("offset"):
        raise Unsupported("OFFSET is not supported in a query about an event", select)
    if limit is None and not (keep_row_number and order):
        return select
    count = exp.Literal.number(_NO_LIMIT) if limit is None else limit.expression
    if not isinstance(count, exp.Literal) or not count.is_int:
        raise Unsupported("LIMIT must be a number", limit)
    if select.args.get("distinct"):
        raise Unsupported(
            "put SELECT DISTINCT in parentheses in FROM and apply the LIMIT outside", limit
        )
    order_keys = _order_keys(select, order, event_alias, keep_row_number)
    row_number = exp.Window(
        this=exp.RowNumber(),
        partition_by=[exp.column(EID, table=event_alias, quoted=True)],
        order=exp.Order(expressions=order_keys),
    )
    select.set("expressions", [*select.expressions, exp.alias_(row_number, ROW_NUMBER)])
    star = exp.Star()
    if not keep_row_number:
        star.set("except_", [exp.column(ROW_NUMBER)])
    within_limit = exp.LTE(this=exp.column(ROW_NUMBER), expression=count)
    return exp.select(star).from_(named_subquery(select, "_l")).where(within_limit)


def _order_keys(
    select: exp.Select, order: exp.Expr | None, event_alias: str, is_outermost: bool
) -> list[exp.Expr]:
    keys: list[exp.Expr] = []
    if order is not None:
        keys.extend(order.expressions)
    else:
        keys.append(exp.Ordered(this=exp.column(EVENT_TS, table=event_alias, quoted=True)))
    if is_outermost:
        # Ties are ordered by all columns, so that the answer is the same each time.
        for output in select.expressions:
            if not output.is_star:
                keys.append(exp.Ordered(this=output.unalias()))
    return [_resolve_order_key(key, select) for key in keys]


def _resolve_order_key(key: exp.Expr, select: exp.Select) -> exp.Expr:
    """An ORDER BY entry over the rows, with outputs that it names replaced by their expressions."""
    assert isinstance(key, exp.Ordered)
    return exp.Ordered(
        this=resolve_output(key.this, select.expressions).copy(),
        desc=key.args.get("desc"),
        nulls_first=key.args.get("nulls_first"),
    )
