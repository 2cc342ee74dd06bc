"""Limits of what a recall of one event may hold in memory."""

import pyarrow as pa
import pyarrow.compute as pc

from recall.errors import LimitExceeded
from recall.query.split import LIST_KINDS, SKETCH_KINDS, Split

MAX_ROWS = 100_000  # rows or groups of a partial answer
MAX_VALUES = 200_000  # values that DISTINCT aggregates or percentiles collect
MAX_SKETCH_BYTES = 32 << 20  # bytes of sketches

_NARROW_QUERY = "narrow the query with WHERE"
_ALTERNATIVES = {
    "count_distinct": "use approx_count_distinct",
    "percentile": "use approx_percentile",
}


def check_limits(split: Split, accumulator: pa.Table) -> None:
    """Raises `LimitExceeded` if a merged partial answer is too large."""
    if len(accumulator) > MAX_ROWS:
        unit = "rows" if split.selects_rows else "groups"
        raise LimitExceeded(
            f"the answer exceeds the limit of {MAX_ROWS:,} {unit} per recall; {_NARROW_QUERY}"
        )
    for aggregate in split.aggregates:
        column = accumulator[aggregate.part_columns[0]]
        if aggregate.kind in LIST_KINDS and _count_values(column) > MAX_VALUES:
            remedy = _ALTERNATIVES.get(aggregate.kind, _NARROW_QUERY)
            raise LimitExceeded(
                f"{aggregate.text} exceeds the limit of {MAX_VALUES:,} values per recall; {remedy}"
            )
        if aggregate.kind in SKETCH_KINDS and column.nbytes > MAX_SKETCH_BYTES:
            raise LimitExceeded(
                f"{aggregate.text} exceeds the limit of {MAX_SKETCH_BYTES >> 20} MiB of sketches "
                "per recall; use fewer groups"
            )


def _count_values(lists: pa.ChunkedArray) -> int:
    """The number of values in a column of lists, which may be NULL."""
    return pc.sum(pc.list_value_length(lists)).as_py() or 0
