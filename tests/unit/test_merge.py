"""Merging partial answers of values that are no plain numbers."""

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from recall.engines.answers import written
from recall.operators.kinds import MERGE

EARLY, LATE = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("smaller", "larger"),
    [
        ({"ts": EARLY, "v": 9.0}, {"ts": LATE, "v": 1.0}),
        ({"ts": None, "v": 9.0}, {"ts": EARLY, "v": 1.0}),
        ({"ts": EARLY, "v": 9.0}, {"ts": EARLY, "v": math.nan}),
        ([1, 2], [1, 2, None]),
        ([{"a": 1}], [{"a": 2}]),
        (5.0, math.nan),
    ],
)
def test_structs_and_arrays_are_ordered_as_spark_orders_them(smaller: Any, larger: Any) -> None:
    for pair in (((smaller,), (larger,)), ((larger,), (smaller,))):
        assert MERGE["min"](*pair) == (smaller,)
        assert MERGE["max"](*pair)[0] is larger


def test_nested_values_are_written_as_json() -> None:
    found = written({"ts": EARLY, "all": [math.nan, math.inf, {"t": LATE}]})
    assert found == {
        "ts": "2026-01-01T00:00:00.000000Z",
        "all": ["NaN", "Infinity", {"t": "2026-01-02T00:00:00.000000Z"}],
    }
