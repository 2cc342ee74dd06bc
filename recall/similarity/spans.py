"""Scores of segments summarised by spans of event time. No I/O."""

from collections.abc import Sequence

import numpy as np

from archiver.time_range import TimeRange
from archiver.times import Micros
from recall.similarity.segments import Segment


def max_by_span(
    segments: Sequence[Segment],
    scores: Sequence[float],
    spans: Sequence[TimeRange],
    before_ts: Micros,
) -> list[float]:
    """For each span, the maximum of the positive scores of segments with events in it; 0: none.

    `scores`: by segment. Only events before `before_ts` are considered.
    """
    ranges = [segment.key_range for segment in segments]
    oldest = np.array([first[0] for first, _ in ranges], dtype=np.int64)
    newest = np.array([last[0] for _, last in ranges], dtype=np.int64)
    positive = np.array(scores) > 0
    maxima = []
    for span in spans:
        past = span.intersect(TimeRange(None, before_ts))
        assert past.end is not None
        overlapping = positive & (oldest < past.end)
        if past.start is not None:
            overlapping &= newest >= past.start
        maximum = 0.0
        for position in np.flatnonzero(overlapping).tolist():
            first, last = segments[position].rows_between(past)
            if first < last:
                maximum = max(maximum, scores[position])
        maxima.append(maximum)
    return maxima
