"""How partial answers of one aggregate merge, and what they say in the end. Pure.

Variances are merged by count, mean and sum of squared differences (Chan, Golub and LeVeque, 1979), never by sums of
squares. NULL and NaN count as in Spark: NULL is left out, NaN is the largest number and equals itself.
"""

import decimal
import math
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa

from recall.query.split import SplitAggregate

Parts = tuple[Any, ...]

# Sums of Spark's decimals (38 digits) are exact.
_DECIMAL_CONTEXT = decimal.Context(prec=80, rounding=decimal.ROUND_HALF_UP)


def group_key(value: Any) -> Any:
    """A key that is the same for what SQL groups together: NaN with NaN, and 0.0 with -0.0."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple((name, group_key(one)) for name, one in value.items())
    return tuple(map(group_key, value)) if isinstance(value, list | tuple) else value


def sort_key(value: Any) -> tuple[Any, ...]:
    """As Spark orders values: NULL first, NaN last, structs and arrays by their parts."""
    if value is None:
        return (0,)
    if isinstance(value, float) and math.isnan(value):
        return (2,)
    if isinstance(value, dict | list):
        return (1, tuple(map(sort_key, value.values() if isinstance(value, dict) else value)))
    return (1, value)


def _add(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return b if a is None else a
    return _DECIMAL_CONTEXT.add(a, b) if isinstance(a, Decimal) else a + b


def _merge_sums(a: Parts, b: Parts) -> Parts:
    return tuple(map(_add, a, b))


def _merge_min(a: Parts, b: Parts) -> Parts:
    known = [x for x in (a[0], b[0]) if x is not None]
    return (min(known, key=sort_key),) if known else (None,)


def _merge_max(a: Parts, b: Parts) -> Parts:
    known = [x for x in (a[0], b[0]) if x is not None]
    return (max(known, key=sort_key),) if known else (None,)


def _merge_min_by(a: Parts, b: Parts) -> Parts:
    """(value, what it is chosen by)."""
    return min((x for x in (a, b) if x[1] is not None), key=lambda x: sort_key(x[1]), default=a)


def _merge_max_by(a: Parts, b: Parts) -> Parts:
    return max((x for x in (a, b) if x[1] is not None), key=lambda x: sort_key(x[1]), default=a)


def _merge_variance(a: Parts, b: Parts) -> Parts:
    """(count, mean, sum of squared differences from the mean) of two samples together."""
    if not a[0]:
        return b
    if not b[0]:
        return a
    (n, mean, m2), (more, other, others) = a, b
    count, shift = n + more, other - mean
    return count, mean + shift * more / count, m2 + others + shift * shift * n * more / count


def _merge_lists(a: Parts, b: Parts) -> Parts:
    return ([*(a[0] or ()), *(b[0] or ())],)


def _merge_sets(a: Parts, b: Parts) -> Parts:
    return (list({group_key(value): value for value in _merge_lists(a, b)[0]}.values()),)


def _merge_sketches(a: Parts, b: Parts) -> Parts:
    """Side by side: Spark brings them together."""
    return ([*_sketch_list(a[0]), *_sketch_list(b[0])],)


def _sketch_list(sketch: Any) -> list[bytes]:
    return sketch if isinstance(sketch, list) else [] if sketch is None else [sketch]


def _merge_bits(operation: Callable[[int, int], int]) -> Callable[[Parts, Parts], Parts]:
    def merge(a: Parts, b: Parts) -> Parts:
        if a[0] is None or b[0] is None:
            return b if a[0] is None else a
        return (operation(a[0], b[0]),)

    return merge


MERGE_FUNCTIONS: dict[str, Callable[[Parts, Parts], Parts]] = {
    **dict.fromkeys(("count", "sum", "avg", "exact_avg"), _merge_sums),
    "min": _merge_min,
    "max": _merge_max,
    "min_by": _merge_min_by,
    "max_by": _merge_max_by,
    **dict.fromkeys(("var_pop", "var_samp", "stddev_pop", "stddev_samp"), _merge_variance),
    "bit_and": _merge_bits(int.__and__),
    "bit_or": _merge_bits(int.__or__),
    "bit_xor": _merge_bits(int.__xor__),
    **dict.fromkeys(("collect_list", "percentile"), _merge_lists),
    **dict.fromkeys(("collect_set", "count_distinct", "sum_distinct", "avg_distinct"), _merge_sets),
    **dict.fromkeys(("approx_count_distinct", "approx_percentile"), _merge_sketches),
}


def final_value(aggregate: SplitAggregate, parts: Parts, kind: pa.DataType | None) -> Any:
    """The value of merged parts; `kind`: its type, where known. Of a sketch: all sketches."""
    match aggregate.kind:
        case "count":
            return parts[0] or 0
        case "avg" | "exact_avg":
            return _mean(parts[0], parts[1], kind)
        case "var_pop" | "var_samp" | "stddev_pop" | "stddev_samp":
            return _variance(aggregate.kind, parts)
        case "collect_list" | "collect_set":
            return sorted(parts[0] or (), key=sort_key)
        case "count_distinct":
            return len({group_key(value) for value in parts[0] or () if value is not None})
        case "sum_distinct":
            return _sum_values(_distinct_values(parts[0]))
        case "avg_distinct":
            values = _distinct_values(parts[0])
            return _mean(_sum_values(values), len(values), kind)
        case "percentile":
            found = [
                _percentile(sorted(parts[0] or (), key=sort_key), share)
                for share in aggregate.quantiles
            ]
            return (found if parts[0] else None) if aggregate.returns_array else found[0]
        case "approx_count_distinct" | "approx_percentile":
            return _sketch_list(parts[0])
    return parts[0]


def _distinct_values(values: Iterable[Any] | None) -> list[Any]:
    return list({group_key(value): value for value in values or ()}.values())


def _sum_values(values: list[Any]) -> Any:
    total = None
    for value in values:
        total = _add(total, value)
    return total


def _mean(total: Any, count: int | None, kind: pa.DataType | None) -> Any:
    if not count or total is None:
        return None
    if isinstance(total, Decimal) and kind is not None and pa.types.is_decimal(kind):
        return _DECIMAL_CONTEXT.divide(total, Decimal(count)).quantize(
            Decimal(1).scaleb(-kind.scale), context=_DECIMAL_CONTEXT
        )
    return float(total) / count


def _variance(kind: str, parts: Parts) -> float | None:
    count, _, m2 = parts
    less = 1 if kind.endswith("samp") else 0
    # As Spark: a single value has no sample variance.
    if count is None or count <= less:
        return None
    variance = float(m2) / (count - less)
    return math.sqrt(variance) if kind.startswith("stddev") else variance


def _percentile(ordered: list[float], share: float) -> float | None:
    """Between the two values next to a share of all, as Spark's percentile."""
    if not ordered:
        return None
    place = (len(ordered) - 1) * share
    low, high = math.floor(place), math.ceil(place)
    if low == high or ordered[low] == ordered[high]:
        return ordered[low]
    return (high - place) * ordered[low] + (place - low) * ordered[high]
