"""Operators over partial answers: merging, limits and estimates."""

from recall.operators.aggregates import MAX_ROWS, aggregate_values, check_limits, merge_tables
from recall.operators.estimate import piece_seconds
from recall.operators.moments import estimate_rows

__all__ = [
    "MAX_ROWS",
    "aggregate_values",
    "check_limits",
    "estimate_rows",
    "merge_tables",
    "piece_seconds",
]
