"""Values of columns as Spark writes them to JSON and Python reads them. No I/O."""

from typing import Any

import pyarrow as pa

from recall.engines import to_json_value


def to_json_values(column_type: str, column: pa.ChunkedArray) -> list[Any]:
    """The values of a column of a plain type.

    Raises `OverflowError` for times outside of the years 1 to 9999.
    """
    values: list[Any] = column.to_pylist()
    if column_type in ("double", "timestamp"):
        return list(map(to_json_value, values))
    return values
