"""Single aggregates: what is computed of one over a piece of history, or why it cannot be split.

Approximate aggregates are Spark's mergeable sketches: HyperLogLog for distinct values, whose
relative standard error is 1.04 / sqrt(2^lgK), and KLL for quantiles, whose error in rank is at most
2.296 / k^0.9021, 99 % of the time (Karnin, Lang and Liberty, FOCS 2016, with the constants of
Apache DataSketches).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from recall.query.parsing import Unsplittable, Unsupported
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
_EXTREME_KINDS: dict[type[exp.Expr], AggregateKind] = {
    exp.ArgMin: "min_by",
    exp.ArgMax: "max_by",
}
_DISTINCT_KINDS: dict[type[exp.Expr], AggregateKind] = {
    exp.Count: "count_distinct",
    exp.Sum: "sum_distinct",
    exp.Avg: "avg_distinct",
}

# Sizes of sketches: the logarithm of HyperLogLog's registers, and KLL's k.
_DEFAULT_HLL_LG_K = 12
_MIN_HLL_LG_K = 4
_MAX_HLL_LG_K = 18
_DEFAULT_KLL_K = 800
_MIN_KLL_K = 8
_MAX_KLL_K = 8000


@dataclass(frozen=True)
class AggregateParts:
    """An aggregate taken apart; see `SplitAggregate`. `parts`: the aggregates of each piece."""

    kind: AggregateKind
    parts: tuple[exp.Expr, ...]
    quantiles: tuple[float, ...] = ()
    returns_array: bool = False
    error_bound: str | None = None


def split_aggregate(node: exp.Expr, value_type: str | None) -> AggregateParts:
    """Take an aggregate apart. Raises `Unsupported`.

    `value_type`: Spark's type of the aggregate, if known.
    """
    name = _function_name(node)
    if isinstance(node.this, exp.Distinct):
        return _split_distinct(node, name)
    aggregate_type = type(node)
    if aggregate_type in _DIRECT_KINDS:
        return AggregateParts(_DIRECT_KINDS[aggregate_type], (node.copy(),))
    if aggregate_type in _EXTREME_KINDS:
        return _split_extreme(node)
    if aggregate_type is exp.Avg:
        return _split_average(node, value_type)
    if aggregate_type in _VARIANCE_KINDS:
        return _split_variance(node)
    if isinstance(node, exp.ApproxQuantile):
        return _split_approx_quantile(node, name)
    if isinstance(node, exp.Median | exp.Quantile):
        return _split_quantile(node, name)
    if isinstance(node, exp.ApproxDistinct):
        return _split_approx_distinct(node)
    raise Unsplittable(f"{name} needs all rows of history", node)


def _function_name(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return node.name.lower()
    return node.sql(dialect="spark").split("(")[0].lower()


def _as_double(value: exp.Expr) -> exp.Expr:
    return exp.cast(value.copy(), "double")


def _is_not_null(value: exp.Expr) -> exp.Expr:
    return exp.Not(this=exp.Is(this=value.copy(), expression=exp.null()))


# Exact aggregates


def _split_extreme(node: exp.Expr) -> AggregateParts:
    """min_by and max_by: the value, and the extreme that it was chosen by."""
    extreme = exp.Min if isinstance(node, exp.ArgMin) else exp.Max
    parts = (node.copy(), extreme(this=node.expression.copy()))
    return AggregateParts(_EXTREME_KINDS[type(node)], parts)


def _split_average(node: exp.Expr, value_type: str | None) -> AggregateParts:
    count = exp.Count(this=node.this.copy())
    if value_type is not None and value_type.startswith("decimal"):
        return AggregateParts("exact_avg", (exp.Sum(this=node.this.copy()), count))
    return AggregateParts("avg", (exp.Sum(this=_as_double(node.this)), count))


def _split_variance(node: exp.Expr) -> AggregateParts:
    """Count, mean and the sum of squared differences from the mean."""
    count = exp.Count(this=node.this.copy())
    mean = exp.Avg(this=_as_double(node.this))
    variance = exp.VariancePop(this=_as_double(node.this))
    squares = exp.Mul(this=variance, expression=count.copy())
    return AggregateParts(_VARIANCE_KINDS[type(node)], (count, mean, squares))


def _split_distinct(node: exp.Expr, name: str) -> AggregateParts:
    values = node.this.expressions
    if isinstance(node, exp.Min | exp.Max):
        extreme = node.copy()
        extreme.set("this", values[0].copy())
        return AggregateParts(_DIRECT_KINDS[type(node)], (extreme,))
    kind = _DISTINCT_KINDS.get(type(node))
    if kind is None:
        raise Unsplittable(f"{name}(DISTINCT …) needs all rows of history", node)
    if len(values) == 1:
        return AggregateParts(kind, (exp.ArrayUniqueAgg(this=values[0].copy()),))
    return AggregateParts(kind, (exp.ArrayUniqueAgg(this=_struct_without_nulls(values)),))


def _struct_without_nulls(values: Sequence[exp.Expr]) -> exp.Expr:
    """Several values as one; NULL if one of them is, as Spark counts distinct rows."""
    fields = []
    for number, value in enumerate(values):
        fields.append(exp.alias_(value.copy(), f"v{number}"))
    all_known = exp.and_(*map(_is_not_null, values))
    return exp.Case().when(all_known, exp.Struct(expressions=fields))


def _split_quantile(node: exp.Expr, name: str) -> AggregateParts:
    quantiles: tuple[float, ...] = (0.5,)
    if not isinstance(node, exp.Median):
        quantiles = _quantiles(node, name)
    values = exp.ArrayAgg(this=_as_double(node.this))
    return AggregateParts("percentile", (values,), quantiles, _returns_array(node))


def _returns_array(node: exp.Expr) -> bool:
    return isinstance(node.args.get("quantile"), exp.Array)


def _quantiles(node: exp.Expr, name: str) -> tuple[float, ...]:
    argument = node.args["quantile"]
    literals = argument.expressions if isinstance(argument, exp.Array) else [argument]
    quantiles = []
    for literal in literals:
        if not isinstance(literal, exp.Literal) or literal.is_string:
            break
        quantiles.append(float(literal.name))
    if not quantiles or len(quantiles) < len(literals):
        raise Unsupported(f"the percentages of {name} must be literals between 0 and 1", node)
    return tuple(quantiles)


# Sketches


def _split_approx_quantile(node: exp.ApproxQuantile, name: str) -> AggregateParts:
    accuracy = node.args.get("accuracy")
    k = _DEFAULT_KLL_K
    if accuracy is not None:
        if not isinstance(accuracy, exp.Literal) or not accuracy.is_int or int(accuracy.name) < 1:
            raise Unsupported(f"the accuracy of {name} must be a positive integer", accuracy)
        k = math.ceil((2.296 * int(accuracy.name)) ** (1 / 0.9021))
        k = min(max(k, _MIN_KLL_K), _MAX_KLL_K)
    # NaN counts as the largest number, as in Spark; the sketch would leave it out.
    infinity = exp.cast(exp.Literal.string("Infinity"), "double")
    number = exp.func("nanvl", _as_double(node.this), infinity)
    sketch = exp.Anonymous(
        this="kll_sketch_agg_double", expressions=[number, exp.Literal.number(k)]
    )
    return AggregateParts(
        "approx_percentile",
        (sketch,),
        quantiles=_quantiles(node, name),
        returns_array=_returns_array(node),
        error_bound=f"within {2.296 / k**0.9021:.2%} of its rank (99 % of the time)",
    )


def _split_approx_distinct(node: exp.ApproxDistinct) -> AggregateParts:
    error = node.args.get("accuracy")
    lg_k = _DEFAULT_HLL_LG_K
    if error is not None:
        if not isinstance(error, exp.Literal) or error.is_string or not 0 < float(error.name) < 1:
            raise Unsupported(
                "the relative error of approx_count_distinct must be between 0 and 1", error
            )
        lg_k = math.ceil(2 * math.log2(1.04 / float(error.name)))
        lg_k = min(max(lg_k, _MIN_HLL_LG_K), _MAX_HLL_LG_K)
    # The sketch takes few types; the hash takes all, and equates NaN with NaN and 0.0 with -0.0.
    value_hash = exp.Anonymous(this="xxhash64", expressions=[node.this.copy()])
    known_hash = exp.Case().when(_is_not_null(node.this), value_hash)
    sketch = exp.Anonymous(
        this="hll_sketch_agg", expressions=[known_hash, exp.Literal.number(lg_k)]
    )
    error_bound = f"{1.04 / math.sqrt(2**lg_k):.2%} (relative standard error)"
    return AggregateParts("approx_count_distinct", (sketch,), error_bound=error_bound)
