"""Operators over partial answers: merging, limits, final values and estimates. No I/O."""

from recall.operators.aggregates import aggregate_values, merge_tables
from recall.operators.estimate import exact_estimate
from recall.operators.limits import MAX_ROWS, check_limits
from recall.operators.row_estimates import estimate_rows, estimated_outputs
from recall.operators.squares import read_summarised, with_summarised

__all__ = [
    "MAX_ROWS",
    "aggregate_values",
    "check_limits",
    "estimate_rows",
    "estimated_outputs",
    "exact_estimate",
    "merge_tables",
    "read_summarised",
    "with_summarised",
]
