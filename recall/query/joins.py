"""Joins of streams: at whose time their rows stand, and how far apart in time the rows that meet may be. Pure.

A row of a join stands at the time of one stream, its *anchor*. What of another stream may meet it lies in
[ts + low, ts + high] and is read off the join's condition; with a bound missing, the row would never be complete.
"""

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from archiver.times import duration_to_micros
from recall.query.intervals import parse_interval

_FLIPPED_COMPARISONS: dict[type[exp.Expr], type[exp.Expr]] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.EQ: exp.EQ,
}


def find_anchor(
    select: exp.Select, times: Mapping[str, str], windows: Sequence[exp.Expr]
) -> str | None:
    """The stream at whose time the rows of a SELECT stand, by its alias: the one whose time is the window's, or the
    output `ts`. `times`: the event time of each stream, by alias. None: the query does not say."""
    if len(times) == 1:
        return next(iter(times))
    if windows:
        value: exp.Expr | None = next(windows[0].iter_expressions(), None)
    else:
        value = next(
            (p.unalias() for p in select.expressions if p.alias_or_name.lower() == "ts"), None
        )
    alias = value.table.lower() if isinstance(value, exp.Column) else ""
    return (
        alias
        if isinstance(value, exp.Column) and value.name.lower() == times.get(alias, "").lower()
        else None
    )


def time_bounds(
    select: exp.Select, join: exp.Join, anchor_time: tuple[str, str], joined_time: tuple[str, str]
) -> tuple[int, int] | None:
    """How much later than the anchor's a row of a joined stream may be: least and most, in microseconds (below 0:
    earlier). `own`, `other`: alias and time column of the anchor and of the joined stream. None: not bounded."""
    low: int | None = None
    high: int | None = None
    for relation, micros in _time_conditions(select, join, anchor_time, joined_time):
        if relation in (exp.GT, exp.GTE, exp.EQ):
            low = micros if low is None else max(low, micros)
        if relation in (exp.LT, exp.LTE, exp.EQ):
            high = micros if high is None else min(high, micros)
    return None if low is None or high is None else (low, max(low, high))


def _time_conditions(
    select: exp.Select, join: exp.Join, own: tuple[str, str], other: tuple[str, str]
) -> Iterator[tuple[type[exp.Expr], int]]:
    """What the conditions say of `other - own`: a relation and microseconds."""
    using = {name.name.lower() for name in join.args.get("using") or ()}
    if own[1].lower() == other[1].lower() and own[1].lower() in using:
        yield exp.EQ, 0
    for condition in _row_conditions(select, join):
        if isinstance(condition, exp.Between):
            pairs: list[tuple[type[exp.Expr], exp.Expr, exp.Expr]] = [
                (exp.GTE, condition.this, condition.args["low"]),
                (exp.LTE, condition.this, condition.args["high"]),
            ]
        elif type(condition) in _FLIPPED_COMPARISONS:
            pairs = [(type(condition), condition.this, condition.expression)]
        else:
            continue
        for relation, left, right in pairs:
            one, two = _time_offset(left), _time_offset(right)
            if one is None or two is None:
                continue
            if (one[0], two[0]) == (other, own):
                yield relation, two[1] - one[1]
            elif (one[0], two[0]) == (own, other):
                yield _FLIPPED_COMPARISONS[relation], one[1] - two[1]


def _row_conditions(select: exp.Select, join: exp.Join) -> Iterator[exp.Expr]:
    """What holds for every row in which the joined stream takes part."""
    inner = [one for one in select.args.get("joins") or () if one is not join and not one.side]
    where = select.args.get("where")
    for whole in [
        *(one.args.get("on") for one in (join, *inner)),
        None if where is None else where.this,
    ]:
        if whole is not None:
            yield from (
                whole.unnest().flatten()
                if isinstance(whole.unnest(), exp.And)
                else [whole.unnest()]
            )


def _time_offset(value: exp.Expr) -> tuple[tuple[str, str], int] | None:
    """A time column, by alias and name, and the microseconds added to it."""
    value = value.unnest()
    if isinstance(value, exp.Column):
        return (value.table.lower(), value.name.lower()), 0
    if isinstance(value, exp.Add | exp.Sub) and isinstance(value.expression, exp.Interval):
        before, added = _time_offset(value.this), _interval_micros(value.expression)
        if before is not None and added is not None:
            return before[0], before[1] + (added if isinstance(value, exp.Add) else -added)
    return None


def _interval_micros(interval: exp.Interval) -> int | None:
    unit = interval.args.get("unit")
    if not isinstance(interval.this, exp.Literal):
        return None
    try:
        return duration_to_micros(
            parse_interval(f"{interval.this.name} {unit.name if unit is not None else ''}")
        )
    except ValueError:
        return None
