"""Values and rows of answers as Spark writes them."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from recall.engines.answers import order_rows, to_json_value

EARLY, LATE = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)


def test_nested_values_are_written_as_json() -> None:
    value = to_json_value({"ts": EARLY, "all": [math.nan, math.inf, {"t": LATE}]})
    assert value == {
        "ts": "2026-01-01T00:00:00.000000Z",
        "all": ["NaN", "Infinity", {"t": "2026-01-02T00:00:00.000000Z"}],
    }


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (-math.inf, "-Infinity"),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2), "2026-01-02T00:00:00.000000"),
        (Decimal("1.50"), 1.5),
        (b"\x00\x01", "AAE="),
        ((1, "a", None), [1, "a", None]),
    ],
)
def test_value_is_written_as_spark_writes_it(value: Any, expected: Any) -> None:
    assert to_json_value(value) == expected


def test_rows_are_ordered_by_number_then_by_content() -> None:
    rows = [(1, {"n": 1}), (0, {"n": 3}), (0, {"n": 2})]
    assert order_rows(rows) == [{"n": 2}, {"n": 3}, {"n": 1}]
