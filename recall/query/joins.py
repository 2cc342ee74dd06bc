"""Joins of streams: which stream gives the rows their time, and how far apart joined rows may be.

A row of a join has the time of one stream, the *anchor*. Rows of another stream that may join it
lie in [ts + low, ts + high], which follows from the join's condition. Without both bounds a row
would never be complete. No I/O.
"""

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from archiver.times import Micros, duration_to_micros
from recall.query.intervals import parse_interval
from recall.query.parts import joins_of

# A time column: the alias of its table and its name, both in lower case.
TimeColumn = tuple[str, str]
Operator = type[exp.Expr]

_MIRRORED_OPERATORS: dict[Operator, Operator] = {
    exp.GT: exp.LT,
    exp.GTE: exp.LTE,
    exp.LT: exp.GT,
    exp.LTE: exp.GTE,
    exp.EQ: exp.EQ,
}


def find_anchor(
    select: exp.Select, times: Mapping[str, str], windows: Sequence[exp.Expr]
) -> str | None:
    """The alias of the stream that gives the rows of a SELECT their time; None if undefined.

    It is the stream whose time column the window groups by, or which is selected as `ts`.
    `times`: the time column of each stream, by alias.
    """
    if len(times) == 1:
        return next(iter(times))
    time = _output_time(select, windows)
    if not isinstance(time, exp.Column):
        return None
    alias = time.table.lower()
    if time.name.lower() != times.get(alias, "").lower():
        return None
    return alias


def _output_time(select: exp.Select, windows: Sequence[exp.Expr]) -> exp.Expr | None:
    if windows:
        return next(windows[0].iter_expressions(), None)
    for output in select.expressions:
        if output.alias_or_name.lower() == "ts":
            value: exp.Expr = output.unalias()
            return value
    return None


def time_bounds(
    select: exp.Select, join: exp.Join, anchor_time: TimeColumn, joined_time: TimeColumn
) -> tuple[int, int] | None:
    """How much later than the anchor's row a joined row may be: minimum and maximum, in µs.

    Negative values mean earlier. None: the condition leaves one side open.
    """
    low_bounds: list[int] = []
    high_bounds: list[int] = []
    for operator, micros in _time_conditions(select, join, anchor_time, joined_time):
        if operator in (exp.GT, exp.GTE, exp.EQ):
            low_bounds.append(micros)
        if operator in (exp.LT, exp.LTE, exp.EQ):
            high_bounds.append(micros)
    if not low_bounds or not high_bounds:
        return None
    low = max(low_bounds)
    return low, max(low, min(high_bounds))


def _time_conditions(
    select: exp.Select, join: exp.Join, anchor_time: TimeColumn, joined_time: TimeColumn
) -> Iterator[tuple[Operator, int]]:
    """Conditions on `joined_time - anchor_time`: a comparison operator and microseconds."""
    using = {name.name.lower() for name in join.args.get("using") or ()}
    if anchor_time[1].lower() == joined_time[1].lower() and anchor_time[1].lower() in using:
        yield exp.EQ, 0
    for condition in _join_conditions(select, join):
        for operator, left_side, right_side in _comparisons(condition):
            left_time = _time_with_offset(left_side)
            right_time = _time_with_offset(right_side)
            if left_time is None or right_time is None:
                continue
            difference = right_time[1] - left_time[1]
            if (left_time[0], right_time[0]) == (joined_time, anchor_time):
                yield operator, difference
            elif (left_time[0], right_time[0]) == (anchor_time, joined_time):
                yield _MIRRORED_OPERATORS[operator], -difference


def _comparisons(condition: exp.Expr) -> list[tuple[Operator, exp.Expr, exp.Expr]]:
    """A condition as comparisons: operator, left and right side; empty if it is none."""
    if isinstance(condition, exp.Between):
        return [
            (exp.GTE, condition.this, condition.args["low"]),
            (exp.LTE, condition.this, condition.args["high"]),
        ]
    if type(condition) in _MIRRORED_OPERATORS:
        return [(type(condition), condition.this, condition.expression)]
    return []


def _join_conditions(select: exp.Select, join: exp.Join) -> Iterator[exp.Expr]:
    """The conditions, split at AND, that hold for every row with a part of the joined stream."""
    predicates = [join.args.get("on")]
    for inner_join in joins_of(select):
        if inner_join is not join and not inner_join.side:
            predicates.append(inner_join.args.get("on"))
    where = select.args.get("where")
    if where is not None:
        predicates.append(where.this)
    for predicate in predicates:
        if predicate is None:
            continue
        predicate = predicate.unnest()
        if isinstance(predicate, exp.And):
            yield from predicate.flatten()
        else:
            yield predicate


def _time_with_offset(value: exp.Expr) -> tuple[TimeColumn, int] | None:
    """A time column and the microseconds added to it; None for any other expression."""
    value = value.unnest()
    if isinstance(value, exp.Column):
        return (value.table.lower(), value.name.lower()), 0
    if not isinstance(value, exp.Add | exp.Sub) or not isinstance(value.expression, exp.Interval):
        return None
    base = _time_with_offset(value.this)
    offset = _interval_micros(value.expression)
    if base is None or offset is None:
        return None
    if isinstance(value, exp.Sub):
        offset = -offset
    return base[0], base[1] + offset


def _interval_micros(interval: exp.Interval) -> Micros | None:
    if not isinstance(interval.this, exp.Literal):
        return None
    unit = interval.args.get("unit")
    unit_name = "" if unit is None else unit.name
    try:
        return duration_to_micros(parse_interval(f"{interval.this.name} {unit_name}"))
    except ValueError:
        return None
