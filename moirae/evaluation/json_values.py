"""Values of columns as Spark writes them to JSON and Python reads them. No I/O."""

from datetime import UTC, datetime
from math import isnan
from typing import Any

import pyarrow as pa


def to_json_values(column_type: str, column: pa.ChunkedArray) -> list[Any]:
    """The values of a column of a plain type.

    Raises `OverflowError` for times outside of the years 1 to 9999.
    """
    values: list[Any] = column.to_pylist()
    if column_type == "double":
        return list(map(_to_json_float, values))
    if column_type == "timestamp":
        return list(map(_to_json_time, values))
    return values


def _to_json_float(value: float | None) -> float | str | None:
    if value is None or abs(value) < float("inf"):
        return value
    if isnan(value):
        return "NaN"
    if value > 0:
        return "Infinity"
    return "-Infinity"


def _to_json_time(value: datetime | None) -> str | None:
    if value is None:
        return None
    # Not `strftime`, which writes years before 1000 with fewer digits.
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
