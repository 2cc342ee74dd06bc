"""Operators over partial answers: merging, limits, final values and estimates. No I/O."""

from recall.operators.aggregates import aggregate_values, merge_tables
from recall.operators.estimate import piece_seconds
from recall.operators.limits import MAX_ROWS, check_limits
from recall.operators.moments import read_summarised, with_summarised
from recall.operators.row_estimates import estimate_rows

__all__ = [
    "MAX_ROWS",
    "aggregate_values",
    "check_limits",
    "estimate_rows",
    "merge_tables",
    "piece_seconds",
    "read_summarised",
    "with_summarised",
]
