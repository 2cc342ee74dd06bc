"""Segments: contexts of past events in arrays, with inverted lists and bounds, and their search.

No I/O.
"""

from recall.similarity.segments.kernel import MAX_LOG_LAG
from recall.similarity.segments.pinned_counts import PinnedCounts, SearchQuery
from recall.similarity.segments.row_scores import score_by_measures
from recall.similarity.segments.segment import (
    ARRAYS,
    BOUNDS,
    MAX_SEGMENT_ROWS,
    BoundedRows,
    KnownRows,
    RowsOfSegment,
    SearchBuffers,
    Segment,
    SegmentFile,
    StoredArrays,
    gather_rows,
)
from recall.similarity.segments.segment_merge import merge_segments

__all__ = [
    "ARRAYS",
    "BOUNDS",
    "BoundedRows",
    "KnownRows",
    "MAX_LOG_LAG",
    "MAX_SEGMENT_ROWS",
    "PinnedCounts",
    "RowsOfSegment",
    "SearchBuffers",
    "SearchQuery",
    "Segment",
    "SegmentFile",
    "StoredArrays",
    "gather_rows",
    "merge_segments",
    "score_by_measures",
]
