"""The answers of norms, from rows of history."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recall.norms import MAX_ROWS, VALUE_COLUMN, NormSpec, compute_norm
from recall.query import sql_names
from recall.requests import RecallEvent


def answer_norm(norm: NormSpec, event: RecallEvent, rows: pa.Table | None) -> dict[str, Any]:
    """The row of the answer. `rows`: those of the event's key that were read; None: there are none."""
    times: npt.NDArray[np.int64] = np.empty(0, np.int64)
    values: npt.NDArray[np.float64] = np.empty(0)
    is_limited = rows is not None and rows.num_rows >= MAX_ROWS
    if rows is not None and rows.num_rows:
        rows = rows.filter(pc.is_valid(rows[VALUE_COLUMN]))
        values = rows[VALUE_COLUMN].cast(pa.float64()).to_numpy()
        # The query has no order of its own: rows are ordered by their time.
        moments = rows[sql_names.order_column(0)].cast(pa.timestamp("us", tz="UTC"))
        times = moments.cast(pa.int64()).to_numpy()
    value = event.attributes.get(norm.of)
    number = None if value is None else float(value)
    return compute_norm(norm, event.ts, number, times, values, event.alerts, is_limited)
