"""ORDER BY and LIMIT of a query about an event, counted for each event."""

from sqlglot import exp

from recall.query.lift.tables import RowEvent, named_subquery
from recall.query.parsing import Unsupported
from recall.query.parts import resolve_output
from recall.query.sql_names import EID, EVENT_TS, ROW_NUMBER

_NO_LIMIT = (1 << 31) - 1  # rows: the largest number that LIMIT takes


def has_order_or_limit(query: exp.Expr) -> bool:
    """Whether a query has ORDER BY, LIMIT or OFFSET."""
    return any(map(query.args.get, ("order", "limit", "offset")))


def lift_limit(select: exp.Select, event: RowEvent, keep_row_number: bool) -> exp.Select:
    """The SELECT with its LIMIT and OFFSET applied for each event. Raises `Unsupported`.

    `event`: of its rows. `keep_row_number`: the query is the outermost one, and its order is kept
    as a column `_row`; an order without a limit means nothing elsewhere.
    """
    order = select.args.pop("order", None)
    limit, offset = select.args.pop("limit", None), select.args.pop("offset", None)
    if limit is None and offset is None and not (keep_row_number and order):
        return select
    row_number = exp.Window(
        this=exp.RowNumber(),
        partition_by=[event.column(EID)],
        order=exp.Order(expressions=_order_keys(select, order, event, keep_row_number)),
    )
    select.set("expressions", [*select.expressions, exp.alias_(row_number, ROW_NUMBER)])
    star = exp.Star()
    if not keep_row_number:
        star.set("except_", [exp.column(ROW_NUMBER)])
    skipped = 0 if offset is None else _row_count(offset)
    count = _NO_LIMIT - skipped if limit is None else _row_count(limit)
    last = exp.Literal.number(skipped + count)
    within_limit: exp.Expr = exp.LTE(this=exp.column(ROW_NUMBER), expression=last)
    if skipped:
        first = exp.Literal.number(skipped)
        after_offset = exp.GT(this=exp.column(ROW_NUMBER), expression=first)
        within_limit = exp.and_(after_offset, within_limit)
    return exp.select(star).from_(named_subquery(select, "_l")).where(within_limit)


def _row_count(clause: exp.Expr) -> int:
    count = clause.expression
    if not isinstance(count, exp.Literal) or not count.is_int:
        raise Unsupported("LIMIT and OFFSET must be numbers", clause)
    return int(count.name)


def _order_keys(
    select: exp.Select, order: exp.Expr | None, event: RowEvent, is_outermost: bool
) -> list[exp.Expr]:
    keys: list[exp.Expr] = []
    if order is not None:
        keys.extend(order.expressions)
    else:
        keys.append(exp.Ordered(this=event.column(EVENT_TS)))
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
