"""Rows of several segments: united, selected by their numbers, and identified. No I/O."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from recall.similarity.candidates import Mask
from recall.similarity.events import EventKey
from recall.similarity.segments import RowsOfSegment, Segment

_NO_ROWS = np.zeros(0, dtype=np.int64)
# Some rows of segments; none for the segments that are left out.
RowsBySegment = Mapping[Segment, npt.NDArray[np.int64]]


def is_among(rows: npt.NDArray[np.int64], ascending: npt.NDArray[np.int64] | None) -> Mask:
    """By row, whether it is one of others; None: of no others."""
    if ascending is None:
        return np.zeros(len(rows), dtype=np.bool_)
    positions = np.minimum(np.searchsorted(ascending, rows), len(ascending) - 1)
    mask: Mask = ascending[positions] == rows
    return mask


def unite_rows(
    segments: Sequence[Segment], named: RowsBySegment, best: RowsBySegment
) -> tuple[list[RowsOfSegment], Mask]:
    """All rows of both, each once, and whether they are named."""
    parts, part_named = [], [np.zeros(0, dtype=np.bool_)]
    for segment in segments:
        named_rows, best_rows = named.get(segment, _NO_ROWS), best.get(segment, _NO_ROWS)
        rows = best_rows
        if len(named_rows):
            rows = np.concatenate([named_rows, best_rows[~is_among(best_rows, named_rows)]])
        if len(rows):
            parts.append(RowsOfSegment(segment, rows))
            part_named.append(np.arange(len(rows)) < len(named_rows))
    return parts, np.concatenate(part_named)


def key_of(parts: Sequence[RowsOfSegment], number: int) -> EventKey:
    """The key of the event with a number among the rows of all parts."""
    for segment, rows in parts:
        if number < len(rows):
            return segment.key(int(rows[number]))
        number -= len(rows)
    raise IndexError(number)


def select_rows(
    parts: Sequence[RowsOfSegment], numbers: npt.NDArray[np.intp]
) -> list[RowsOfSegment]:
    """Of all parts, the rows with these numbers, ascending."""
    firsts = np.cumsum([0, *(len(rows) for _, rows in parts)])
    ends = np.searchsorted(numbers, firsts).tolist()
    selected = []
    for (segment, rows), first, (low, high) in zip(parts, firsts[:-1], pairwise(ends), strict=True):
        if low < high:
            selected.append(RowsOfSegment(segment, rows[numbers[low:high] - first]))
    return selected
