"""Rows of several segments. No I/O."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from recall.similarity.segments import Segment

# Some rows of segments; none for the segments that are left out.
RowsBySegment = Mapping[Segment, npt.NDArray[np.int64]]


def unite_rows(first: RowsBySegment, second: RowsBySegment) -> RowsBySegment:
    """All rows of both, each once, ascending."""
    united = dict(first)
    for segment, rows in second.items():
        united[segment] = np.union1d(first.get(segment, rows), rows)
    return united
