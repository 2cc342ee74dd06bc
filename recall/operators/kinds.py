"""How partial answers of one aggregate merge, and the final values that they yield.

Variances are merged by count, mean and sum of squared differences (Chan, Golub and LeVeque, 1979),
never by sums of squares. NULL and NaN count as in Spark: NULL is left out, NaN is the largest
number and equals itself. No I/O.
"""

import decimal
import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from recall.query.split import SplitAggregate

# The partial answer of one aggregate: the values of its part columns.
Parts = tuple[Any, ...]
MergeFunction = Callable[[Parts, Parts], Parts]

# Sums of Spark's decimals (38 digits) are exact.
_DECIMAL_CONTEXT = decimal.Context(prec=80, rounding=decimal.ROUND_HALF_UP)


def group_key(value: Any) -> Any:
    """A key that is equal for values which SQL groups together: NaN with NaN, and 0.0 with -0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple(zip(value, map(group_key, value.values()), strict=True))
    if isinstance(value, list | tuple):
        return tuple(map(group_key, value))
    return value


def sort_key(value: Any) -> tuple[Any, ...]:
    """A key in Spark's order of values: NULL first, NaN last, structs and arrays by elements."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    if isinstance(value, dict):
        return (1, tuple(map(sort_key, value.values())))
    if isinstance(value, list):
        return (1, tuple(map(sort_key, value)))
    return (1, value)


# Merging


def _add(a: Any, b: Any) -> Any:
    if a is None:
        return b
    if b is None:
        return a
    return _DECIMAL_CONTEXT.add(a, b) if isinstance(a, Decimal) else a + b


def _merge_sums(a: Parts, b: Parts) -> Parts:
    return tuple(map(_add, a, b))


def _ignoring_null(position: int, merge: MergeFunction) -> MergeFunction:
    """Merge only answers whose part at a position is not NULL."""

    def merge_known(a: Parts, b: Parts) -> Parts:
        if b[position] is None:
            return a
        if a[position] is None:
            return b
        return merge(a, b)

    return merge_known


def _merge_min(position: int) -> MergeFunction:
    """The answer with the smallest part at a position."""

    def key(parts: Parts) -> tuple[Any, ...]:
        return sort_key(parts[position])

    return _ignoring_null(position, lambda a, b: min(a, b, key=key))


def _merge_max(position: int) -> MergeFunction:
    """The answer with the largest part at a position."""

    def key(parts: Parts) -> tuple[Any, ...]:
        return sort_key(parts[position])

    return _ignoring_null(position, lambda a, b: max(a, b, key=key))


def _merge_variance(a: Parts, b: Parts) -> Parts:
    """Parts: count, mean, and sum of squared differences from the mean."""
    if not a[0]:
        return b
    if not b[0]:
        return a
    count_a, mean_a, squares_a = a
    count_b, mean_b, squares_b = b
    count = count_a + count_b
    shift = mean_b - mean_a
    mean = mean_a + shift * count_b / count
    squares = squares_a + squares_b + shift * shift * count_a * count_b / count
    return count, mean, squares


def _merge_lists(a: Parts, b: Parts) -> Parts:
    return ([*(a[0] or ()), *(b[0] or ())],)


def _merge_sets(a: Parts, b: Parts) -> Parts:
    (values,) = _merge_lists(a, b)
    return (_distinct_values(values),)


def _merge_sketches(a: Parts, b: Parts) -> Parts:
    """Collect sketches in a list: Spark merges them."""
    return ([*_sketch_list(a[0]), *_sketch_list(b[0])],)


def _sketch_list(sketch: Any) -> list[bytes]:
    if sketch is None:
        return []
    if isinstance(sketch, list):
        return sketch
    return [sketch]


def _merge_bits(operation: Callable[[int, int], int]) -> MergeFunction:
    return _ignoring_null(0, lambda a, b: (operation(a[0], b[0]),))


MERGE_FUNCTIONS: dict[str, MergeFunction] = {
    "count": _merge_sums,
    "sum": _merge_sums,
    "avg": _merge_sums,
    "exact_avg": _merge_sums,
    "min": _merge_min(0),
    "max": _merge_max(0),
    # Parts: a value, and the extreme that it was chosen by.
    "min_by": _merge_min(1),
    "max_by": _merge_max(1),
    "var_pop": _merge_variance,
    "var_samp": _merge_variance,
    "stddev_pop": _merge_variance,
    "stddev_samp": _merge_variance,
    "bit_and": _merge_bits(int.__and__),
    "bit_or": _merge_bits(int.__or__),
    "bit_xor": _merge_bits(int.__xor__),
    "collect_list": _merge_lists,
    "percentile": _merge_lists,
    "collect_set": _merge_sets,
    "count_distinct": _merge_sets,
    "sum_distinct": _merge_sets,
    "avg_distinct": _merge_sets,
    "approx_count_distinct": _merge_sketches,
    "approx_percentile": _merge_sketches,
}


# Final values


def final_value(aggregate: SplitAggregate, parts: Parts, value_type: pa.DataType | None) -> Any:
    """The value of an aggregate from its merged parts; from sketches: the list of these.

    `value_type`: None if not known.
    """
    match aggregate.kind:
        case "count":
            return parts[0] or 0
        case "avg" | "exact_avg":
            return _mean(parts[0], parts[1], value_type)
        case "var_pop" | "var_samp" | "stddev_pop" | "stddev_samp":
            return _variance(aggregate.kind, parts)
        case "collect_list" | "collect_set":
            return sorted(parts[0] or (), key=sort_key)
        case "count_distinct":
            keys = {group_key(value) for value in parts[0] or () if value is not None}
            return len(keys)
        case "sum_distinct":
            return _sum_values(_distinct_values(parts[0] or ()))
        case "avg_distinct":
            values = _distinct_values(parts[0] or ())
            return _mean(_sum_values(values), len(values), value_type)
        case "percentile":
            return _percentiles(aggregate, parts[0] or ())
        case "approx_count_distinct" | "approx_percentile":
            return _sketch_list(parts[0])
    return parts[0]


def _distinct_values(values: Iterable[Any]) -> list[Any]:
    """One of each group of values that SQL holds to be equal."""
    return list({group_key(value): value for value in values}.values())


def _sum_values(values: Iterable[Any]) -> Any:
    """The sum of values that are not NULL; NULL if there are none."""
    total = None
    for value in values:
        total = _add(total, value)
    return total


def _mean(total: Any, count: int | None, value_type: pa.DataType | None) -> Any:
    if not count or total is None:
        return None
    if not isinstance(total, Decimal) or value_type is None or not pa.types.is_decimal(value_type):
        return float(total) / count
    quotient = _DECIMAL_CONTEXT.divide(total, Decimal(count))
    return quotient.quantize(Decimal(1).scaleb(-value_type.scale), context=_DECIMAL_CONTEXT)


def _variance(kind: str, parts: Parts) -> float | None:
    count, _, squares = parts
    lost_degrees = 1 if kind.endswith("samp") else 0
    # As in Spark, a single value has no sample variance.
    if count is None or count <= lost_degrees:
        return None
    variance: float = float(squares) / (count - lost_degrees)
    if kind.startswith("stddev"):
        return math.sqrt(variance)
    return variance


def _percentiles(aggregate: SplitAggregate, values: Iterable[float]) -> Any:
    """A list, a single value, or NULL without values."""
    ordered = sorted(values, key=sort_key)
    if not ordered:
        return None
    percentiles = [_percentile(ordered, quantile) for quantile in aggregate.quantiles]
    return percentiles if aggregate.returns_array else percentiles[0]


def _percentile(ordered: list[float], quantile: float) -> float:
    """The value at a quantile, interpolated between its neighbours as Spark's percentile does."""
    position = (len(ordered) - 1) * quantile
    low, high = math.floor(position), math.ceil(position)
    if low == high or ordered[low] == ordered[high]:
        return ordered[low]
    return (high - position) * ordered[low] + (position - low) * ordered[high]
