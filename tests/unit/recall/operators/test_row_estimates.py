"""Estimates for rows of intermediate answers."""

import math
from decimal import Decimal

import pyarrow as pa

from recall.operators.aggregates import merge_tables
from recall.operators.row_estimates import estimate_rows
from recall.query.shape import Tables
from recall.query.split import split_query

TABLES = Tables({"cpu": "ts"})
AVERAGES = split_query("SELECT host AS h, avg(cpu) AS a FROM cpu GROUP BY host", TABLES)


def accumulate(*sums_and_counts: tuple[float, int]) -> pa.Table:
    accumulator = None
    for total, count in sums_and_counts:
        row = {"_eid": "e", "_g0": "a", "_a0_0": total, "_a0_1": count}
        accumulator = merge_tables(AVERAGES, accumulator, pa.Table.from_pylist([row]), 60.0)
    assert accumulator is not None
    return accumulator


def test_average_keeps_its_value_and_gains_an_interval() -> None:
    value = Decimal("2.5000")
    (estimates,) = estimate_rows(
        AVERAGES, accumulate((4.0, 2), (6.0, 2)), [{"h": "a", "a": value}], 600.0, final=False
    )
    assert estimates["a"]["value"] is value
    assert estimates["a"]["low"] < 2.5 < estimates["a"]["high"]


def test_average_that_is_not_a_number_has_no_interval() -> None:
    (estimates,) = estimate_rows(
        AVERAGES,
        accumulate((math.nan, 2), (6.0, 2)),
        [{"h": "a", "a": math.nan}],
        600.0,
        final=False,
    )
    assert math.isnan(estimates["a"]["value"])
    assert (estimates["a"]["low"], estimates["a"]["high"]) == (None, None)


def test_rows_without_all_groups_have_no_estimates() -> None:
    split = split_query("SELECT count(*) AS n FROM cpu GROUP BY host", TABLES)
    assert estimate_rows(split, None, [{"n": 3}], 600.0, final=False) == []


def test_error_bound_of_a_sketch_is_stated() -> None:
    split = split_query("SELECT approx_count_distinct(host) AS n FROM cpu", TABLES)
    (estimates,) = estimate_rows(split, None, [{"n": 3}], 600.0, final=True)
    assert estimates["n"] == {
        "value": 3,
        "low": 3,
        "high": 3,
        "error": "1.62% (relative standard error)",
    }
