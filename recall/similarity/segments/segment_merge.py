"""Merging segments of one chunk. No I/O."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from recall.similarity.numeric import NumericValues
from recall.similarity.segments.segment import Array, Segment, SegmentRows


def merge_segments(segments: Sequence[Segment]) -> Segment:
    """Build one segment from several of the same chunk."""
    ts = _concatenate(segments, "ts")
    eids = _concatenate(segments, "eids")
    order = np.lexsort((eids, ts))
    sizes = np.concatenate([np.diff(segment.arrays["starts"]) for segment in segments])
    terms = np.concatenate([segment.term_ids[segment.arrays["terms"]] for segment in segments])
    counts = _concatenate(segments, "counts", np.float64)
    # The position of each term of the merged rows in the concatenated terms.
    firsts = np.cumsum(sizes) - sizes
    merged_sizes = sizes[order]
    merged_firsts = np.cumsum(merged_sizes) - merged_sizes
    shifts = np.repeat(firsts[order] - merged_firsts, merged_sizes)
    positions = shifts + np.arange(len(terms))
    rows = SegmentRows(
        ts[order],
        eids[order],
        _concatenate(segments, "numbers")[order],
        merged_sizes,
        terms[positions],
        counts[positions],
        _merge_values(segments, merged_rows=np.argsort(order)),
    )
    return Segment.from_rows(segments[0].chunk, rows)


def _merge_values(segments: Sequence[Segment], merged_rows: npt.NDArray[np.int64]) -> NumericValues:
    """The numeric values of merged segments.

    `merged_rows`: the merged row of each row of the concatenated segments.
    """
    parts = []
    offset = 0
    for segment in segments:
        parts.append(merged_rows[segment.values.rows + offset])
        offset += len(segment)
    rows = np.concatenate(parts)
    attributes = _concatenate(segments, "attributes")
    values = _concatenate(segments, "values")
    order = np.lexsort((attributes, rows))
    return NumericValues(rows[order], attributes[order], values[order])


def _concatenate(segments: Iterable[Segment], name: str, dtype: Any = None) -> Array:
    """An array of all segments, one after the other; `dtype`: converted to it."""
    return np.concatenate([segment.arrays[name] for segment in segments], dtype=dtype)
