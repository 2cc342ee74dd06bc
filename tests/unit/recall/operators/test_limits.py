"""Limits of what a recall may hold."""

import pyarrow as pa
import pytest

from recall.operators.limits import (
    MAX_ROWS,
    MAX_SKETCH_BYTES,
    MAX_VALUES,
    LimitExceeded,
    check_limits,
)
from recall.query.shape import Tables
from recall.query.split import Split, split_query


def split(sql: str) -> Split:
    return split_query(sql, Tables({"cpu": "ts"}))


DISTINCT = split("SELECT host, count(DISTINCT cpu) AS n FROM cpu GROUP BY host")


def test_too_many_groups_are_rejected() -> None:
    count = MAX_ROWS + 1
    accumulator = pa.table({"_eid": ["e"] * count, "_g0": range(count), "_a0_0": [[1]] * count})
    check_limits(DISTINCT, accumulator.slice(1))
    with pytest.raises(LimitExceeded, match="exceeds the limit of 100,000 groups per recall"):
        check_limits(DISTINCT, accumulator)


def test_too_many_distinct_values_are_rejected_with_an_alternative() -> None:
    values = pa.table({"_eid": ["e"], "_g0": ["a"], "_a0_0": [list(range(MAX_VALUES + 1))]})
    with pytest.raises(LimitExceeded, match=r"COUNT\(DISTINCT cpu\) .* use approx_count_distinct"):
        check_limits(DISTINCT, values)


def test_too_large_sketches_are_rejected() -> None:
    sketches = pa.table({"_eid": ["e"], "_a0_0": pa.array([[b"x" * MAX_SKETCH_BYTES]])})
    with pytest.raises(LimitExceeded, match="32 MiB of sketches"):
        check_limits(split("SELECT approx_count_distinct(cpu) AS n FROM cpu"), sketches)


def test_lists_may_be_null() -> None:
    no_values = pa.table(
        {"_eid": ["e"], "_g0": ["a"], "_a0_0": pa.array([None], pa.list_(pa.int32()))}
    )
    check_limits(DISTINCT, no_values)
