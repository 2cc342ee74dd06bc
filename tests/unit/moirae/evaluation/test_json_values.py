"""Values of columns as Spark writes them to JSON."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from moirae.evaluation.json_values import to_json_values


@pytest.mark.parametrize(
    ("column_type", "values", "expected"),
    [
        (
            "double",
            [1.5, float("nan"), float("inf"), -float("inf"), None],
            [1.5, "NaN", "Infinity", "-Infinity", None],
        ),
        (
            "timestamp",
            [datetime(2024, 2, 29, 12, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC), None],
            ["2024-02-29T12:00:00.000000Z", "0001-01-01T00:00:00.000000Z", None],
        ),
        ("string", ["a", None], ["a", None]),
        ("bigint", [1 << 62, None], [1 << 62, None]),
    ],
)
def test_values_are_those_that_python_reads(
    column_type: str, values: list[Any], expected: list[Any]
) -> None:
    assert to_json_values(column_type, pa.chunked_array([values])) == expected
