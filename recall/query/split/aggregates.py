"""Each aggregate by itself: what is computed of it over a piece of history, or why it cannot be taken apart.

Approximate ones are Spark's mergeable sketches: HyperLogLog for distinct values (its relative standard error is
1.04 / √2^lgK), KLL for quantiles (its error in rank, 99 % of the time, is 2.296 / k^0.9021; Karnin, Lang and Liberty,
FOCS 2016, with the constants of Apache DataSketches).
"""

import math
from dataclasses import dataclass

from sqlglot import exp

from recall.query.shape import Unsupported
from recall.query.split.model import AggregateKind

_DIRECT_KINDS: dict[type[exp.Expr], AggregateKind] = {
    exp.Count: "count",
    exp.CountIf: "count",
    exp.Sum: "sum",
    exp.Min: "min",
    exp.Max: "max",
    exp.LogicalAnd: "min",
    exp.LogicalOr: "max",
    exp.BitwiseAndAgg: "bit_and",
    exp.BitwiseOrAgg: "bit_or",
    exp.BitwiseXorAgg: "bit_xor",
    exp.ArrayAgg: "collect_list",
    exp.ArrayUniqueAgg: "collect_set",
}
_VARIANCE_KINDS: dict[type[exp.Expr], AggregateKind] = {
    exp.VariancePop: "var_pop",
    exp.Variance: "var_samp",
    exp.StddevPop: "stddev_pop",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
}
_EXTREME_KINDS: dict[type[exp.Expr], AggregateKind] = {exp.ArgMin: "min_by", exp.ArgMax: "max_by"}
_DISTINCT_KINDS: dict[type[exp.Expr], AggregateKind] = {
    exp.Count: "count_distinct",
    exp.Sum: "sum_distinct",
    exp.Avg: "avg_distinct",
}
# What to write instead of what cannot be taken apart.
_ALTERNATIVES: dict[type[exp.Expr], str] = {
    **dict.fromkeys(
        (exp.First, exp.FirstValue, exp.AnyValue),
        "which row is first depends on the pieces; use min_by(x, ts)",
    ),
    **dict.fromkeys(
        (exp.Last, exp.LastValue), "which row is last depends on the pieces; use max_by(x, ts)"
    ),
    exp.Mode: "use GROUP BY with ORDER BY count(*) DESC LIMIT 1",
    exp.Corr: "select the sums that it is made of: count(*), sum(x), sum(y), sum(x*x), sum(y*y), sum(x*y)",
}
_SUPPORTED_NAMES = (
    "count, sum, avg, min, max, stddev, variance, min_by, max_by, bool_and, bool_or, count_if, bit_and, bit_or, "
    "bit_xor, collect_set, collect_list, count, sum and avg of DISTINCT, percentile, median, approx_percentile, "
    "approx_count_distinct"
)
# lgK of sketches of distinct values, k of those of quantiles, where the query does not say; and the largest.
_DEFAULT_HLL_LG_K, _MAX_HLL_LG_K, _DEFAULT_KLL_K, _MAX_KLL_K = 12, 18, 800, 8000


@dataclass(frozen=True)
class AggregateParts:
    """An aggregate taken apart; see `recall.query.split.model.Aggregate`."""

    kind: AggregateKind
    parts: tuple[exp.Expr, ...]
    quantiles: tuple[float, ...] = ()
    returns_array: bool = False
    error_bound: str | None = None


def split_aggregate(node: exp.Expr, value_type: str | None) -> AggregateParts:
    """What is computed of an aggregate over each piece; `kept`: its type, where known. Raises `Unsupported`."""
    name = _function_name(node)
    if isinstance(node.this, exp.Distinct):
        return _split_distinct(node, name)
    kind = type(node)
    if kind in _DIRECT_KINDS:
        return AggregateParts(_DIRECT_KINDS[kind], (node.copy(),))
    if kind in _EXTREME_KINDS:
        extreme = exp.Min if kind is exp.ArgMin else exp.Max
        return AggregateParts(
            _EXTREME_KINDS[kind], (node.copy(), extreme(this=node.expression.copy()))
        )
    if kind is exp.Avg:
        if value_type is not None and value_type.startswith("decimal"):
            return AggregateParts(
                "exact_avg", (exp.Sum(this=node.this.copy()), exp.Count(this=node.this.copy()))
            )
        return AggregateParts(
            "avg", (exp.Sum(this=_as_double(node.this)), exp.Count(this=node.this.copy()))
        )
    if kind in _VARIANCE_KINDS:
        count = exp.Count(this=node.this.copy())
        spread = exp.Mul(this=exp.VariancePop(this=_as_double(node.this)), expression=count.copy())
        return AggregateParts(
            _VARIANCE_KINDS[kind], (count, exp.Avg(this=_as_double(node.this)), spread)
        )
    if isinstance(node, exp.ApproxQuantile):
        return _split_approx_quantile(node, name)
    if isinstance(node, exp.Median | exp.Quantile):
        at = (0.5,) if isinstance(node, exp.Median) else _quantiles(node, name)
        return AggregateParts(
            "percentile", (exp.ArrayAgg(this=_as_double(node.this)),), at, _returns_array(node)
        )
    if isinstance(node, exp.ApproxDistinct):
        return _split_approx_distinct(node)
    instead = _ALTERNATIVES.get(kind, f"there are {_SUPPORTED_NAMES}")
    raise Unsupported(f"{name} cannot be split into pieces of history: {instead}", node)


def _function_name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return node.sql(dialect="spark").split("(")[0].lower()


def _split_distinct(node: exp.Expr, name: str) -> AggregateParts:
    values = node.this.expressions
    if isinstance(node, exp.Min | exp.Max):
        plain = node.copy()
        plain.set("this", values[0].copy())
        return AggregateParts(_DIRECT_KINDS[type(node)], (plain,))
    kind = _DISTINCT_KINDS.get(type(node))
    if kind is None:
        raise Unsupported(
            f"{name}(DISTINCT …) cannot be split into pieces of history; group by its value", node
        )
    if len(values) == 1:
        return AggregateParts(kind, (exp.ArrayUniqueAgg(this=values[0].copy()),))
    # As Spark counts: rows in which one of several is NULL do not count.
    known = exp.and_(*(exp.Not(this=exp.Is(this=v.copy(), expression=exp.null())) for v in values))
    together = exp.Struct(expressions=[exp.alias_(v.copy(), f"v{n}") for n, v in enumerate(values)])
    return AggregateParts(kind, (exp.ArrayUniqueAgg(this=exp.Case().when(known, together)),))


def _as_double(value: exp.Expr) -> exp.Expr:
    return exp.cast(value.copy(), "double")


def _returns_array(node: exp.Expr) -> bool:
    return isinstance(node.args.get("quantile"), exp.Array)


def _quantiles(node: exp.Expr, name: str) -> tuple[float, ...]:
    given = node.args["quantile"]
    found = given.expressions if isinstance(given, exp.Array) else [given]
    if not found or any(not isinstance(one, exp.Literal) or one.is_string for one in found):
        raise Unsupported(f"{name} takes plain numbers between 0 and 1 for its shares", node)
    return tuple(float(one.name) for one in found)


def _split_approx_quantile(node: exp.ApproxQuantile, name: str) -> AggregateParts:
    accuracy = node.args.get("accuracy")
    k = _DEFAULT_KLL_K
    if accuracy is not None:
        if not isinstance(accuracy, exp.Literal) or not accuracy.is_int or int(accuracy.name) < 1:
            raise Unsupported(f"{name} takes a whole number for its accuracy", accuracy)
        k = min(max(math.ceil((2.296 * int(accuracy.name)) ** (1 / 0.9021)), 8), _MAX_KLL_K)
    # NaN counts as the largest number, as in Spark; the sketch would leave it out.
    number = exp.func(
        "nanvl", _as_double(node.this), exp.cast(exp.Literal.string("Infinity"), "double")
    )
    sketch = exp.Anonymous(
        this="kll_sketch_agg_double", expressions=[number, exp.Literal.number(k)]
    )
    error = f"within {2.296 / k**0.9021:.2%} of its rank (99 % of the time)"
    return AggregateParts(
        "approx_percentile", (sketch,), _quantiles(node, name), _returns_array(node), error
    )


def _split_approx_distinct(node: exp.ApproxDistinct) -> AggregateParts:
    wanted, size = node.args.get("accuracy"), _DEFAULT_HLL_LG_K
    if wanted is not None:
        if (
            not isinstance(wanted, exp.Literal)
            or wanted.is_string
            or not 0 < float(wanted.name) < 1
        ):
            raise Unsupported(
                "approx_count_distinct takes a relative error between 0 and 1", wanted
            )
        size = min(max(math.ceil(2 * math.log2(1.04 / float(wanted.name))), 4), _MAX_HLL_LG_K)
    value = node.this
    # The sketch takes few types; the hash takes all, NaN with NaN and 0.0 with -0.0.
    known = exp.Not(this=exp.Is(this=value.copy(), expression=exp.null()))
    hashed = exp.Case().when(known, exp.Anonymous(this="xxhash64", expressions=[value.copy()]))
    sketch = exp.Anonymous(this="hll_sketch_agg", expressions=[hashed, exp.Literal.number(size)])
    error = f"{1.04 / math.sqrt(2**size):.2%} (relative standard error)"
    return AggregateParts("approx_count_distinct", (sketch,), error_bound=error)
