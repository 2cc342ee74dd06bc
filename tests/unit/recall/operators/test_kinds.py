"""Merging partial answers of single aggregates, and their final values."""

import math
import statistics
from decimal import Decimal
from functools import reduce
from typing import Any

import pyarrow as pa
import pytest

from recall.operators.kinds import MERGE_FUNCTIONS, final_value, group_key, sort_key
from recall.query.split import AggregateKind, SplitAggregate


def merge(kind: AggregateKind, *partial_answers: tuple[Any, ...]) -> tuple[Any, ...]:
    return reduce(MERGE_FUNCTIONS[kind], partial_answers)


def value_of(
    kind: AggregateKind,
    parts: tuple[Any, ...],
    value_type: pa.DataType | None = None,
    **options: Any,
) -> Any:
    aggregate = SplitAggregate(kind, "_v0", ("_a0_0",), "", **options)
    return final_value(aggregate, parts, value_type)


def test_nan_and_zeros_are_grouped_as_in_sql() -> None:
    assert group_key(math.nan) == group_key(float("nan"))
    assert group_key([0.0, {"a": -0.0}]) == group_key([-0.0, {"a": 0.0}])
    assert group_key(None) != group_key(0)


def test_values_are_ordered_as_in_spark() -> None:
    values = [math.nan, 2.0, None, -math.inf, math.inf]
    assert [str(value) for value in sorted(values, key=sort_key)] == [
        "None",
        "-inf",
        "2.0",
        "inf",
        "nan",
    ]
    assert sort_key({"a": 1, "b": None}) < sort_key({"a": 1, "b": 0})


@pytest.mark.parametrize(
    ("kind", "partial_answers", "merged"),
    [
        ("count", [(2,), (3,)], (5,)),
        ("sum", [(None,), (3,), (None,)], (3,)),
        ("sum", [(None,), (None,)], (None,)),
        ("min", [(2.0,), (None,), (math.nan,)], (2.0,)),
        ("max", [(2,), (None,), (5,)], (5,)),
        ("min_by", [("a", 2), ("b", 1), ("c", None)], ("b", 1)),
        ("max_by", [("a", None), ("b", None)], ("a", None)),
        ("bit_and", [(6,), (None,), (3,)], (2,)),
        ("bit_xor", [(6,), (3,)], (5,)),
        ("collect_list", [([1, 2],), (None,), ([1],)], ([1, 2, 1],)),
        ("collect_set", [([1, 2],), ([2, 3],)], ([1, 2, 3],)),
        ("approx_count_distinct", [(b"a",), ([b"b", b"c"],), (None,)], ([b"a", b"b", b"c"],)),
    ],
)
def test_partial_answers_merge(
    kind: AggregateKind, partial_answers: list[tuple[Any, ...]], merged: tuple[Any, ...]
) -> None:
    assert merge(kind, *partial_answers) == merged


def test_variance_of_merged_samples_is_that_of_all_values() -> None:
    samples = [[1.0, 2.0], [5.0], [], [7.0, 8.0, 12.0]]
    partial_answers = []
    for sample in samples:
        mean = statistics.fmean(sample) if sample else None
        squares = sum((value - mean) ** 2 for value in sample) if mean is not None else None
        partial_answers.append((len(sample), mean, squares))
    merged = merge("stddev_samp", *partial_answers)
    values = [value for sample in samples for value in sample]
    assert value_of("stddev_samp", merged) == pytest.approx(statistics.stdev(values))
    assert value_of("var_pop", merged) == pytest.approx(statistics.pvariance(values))


def test_single_value_has_no_sample_variance() -> None:
    assert value_of("var_samp", (1, 5.0, 0.0)) is None
    assert value_of("var_pop", (1, 5.0, 0.0)) == 0.0


def test_average_of_decimals_is_exact() -> None:
    average = value_of("exact_avg", (Decimal("10"), 3), pa.decimal128(16, 7))
    assert average == Decimal("3.3333333")
    assert value_of("avg", (10.0, 4)) == 2.5
    assert value_of("avg", (None, 0)) is None


def test_percentiles_are_interpolated() -> None:
    assert value_of("percentile", ([4.0, 1.0, 2.0],), quantiles=(0.75,)) == 3.0
    quartiles = value_of("percentile", ([4.0, 1.0, 2.0],), quantiles=(0.0, 0.5), returns_array=True)
    assert quartiles == [1.0, 2.0]
    assert value_of("percentile", ([],), quantiles=(0.5,)) is None


def test_distinct_values_are_counted_and_summed_once() -> None:
    values = ([0.0, -0.0, 1.5, None],)
    assert value_of("count_distinct", values) == 2
    assert value_of("sum_distinct", values) == 1.5
    assert value_of("avg_distinct", ([2, 4, 4],)) == 3.0
