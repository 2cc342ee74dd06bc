"""The segments of a corpus by the event times that they span. No I/O."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from archiver.time_range import TimeRange
from archiver.times import Micros
from recall.similarity.measures import Floats
from recall.similarity.segments import Segment

_TIMES = np.iinfo(np.int64)


class RowsInSpan(NamedTuple):
    """Rows of the segment at a position: the first one, and the one after the last."""

    position: int
    first: int
    last: int


class SegmentSpans:
    """Some segments, which do not change, with their oldest and newest event times."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.segments = tuple(segments)
        ranges = [segment.key_range for segment in self.segments]
        self._oldest = np.array([oldest[0] for oldest, _ in ranges], dtype=np.int64)
        self._newest = np.array([newest[0] for _, newest in ranges], dtype=np.int64)

    def rows_between(self, span: TimeRange) -> Iterator[RowsInSpan]:
        """The rows of all segments that lie in a span."""
        overlapping = np.ones(len(self.segments), dtype=bool)
        if span.end is not None:
            overlapping &= self._oldest < span.end
        if span.start is not None:
            overlapping &= self._newest >= span.start
        for position in np.flatnonzero(overlapping).tolist():
            first, last = self.segments[position].rows_between(span)
            if first < last:
                yield RowsInSpan(position, first, last)

    def max_by_span(
        self, scores: Floats, spans: Sequence[TimeRange], before_ts: Micros
    ) -> npt.NDArray[np.float64]:
        """For each span, the maximum of the positive scores of segments with events in it; 0: none.

        `scores`: by segment. `spans`: disjoint, in any order. Only events before `before_ts` are
        considered.
        """
        starts = np.array([_start(span) for span in spans], dtype=np.int64)
        ends = np.array([_end(span, before_ts) for span in spans], dtype=np.int64)
        numbers = np.lexsort((starts, ends))
        numbers = numbers[starts[numbers] < ends[numbers]]
        starts, ends = starts[numbers], ends[numbers]
        # The first and the last span that each segment may have events in.
        first_spans = np.searchsorted(ends, self._oldest, side="right")
        last_spans = np.searchsorted(starts, self._newest, side="right") - 1
        is_candidate = (scores > 0) & (first_spans <= last_spans)
        is_within = is_candidate & (first_spans == last_spans)
        within = np.flatnonzero(is_within)
        inside = first_spans[within]
        is_within[within] = (starts[inside] <= self._oldest[within]) & (
            self._newest[within] < ends[inside]
        )
        ordered_maxima = np.zeros(len(numbers))
        np.maximum.at(ordered_maxima, first_spans[is_within], scores[is_within])
        for position in np.flatnonzero(is_candidate & ~is_within).tolist():
            segment = self.segments[position]
            for index in range(first_spans[position], last_spans[position] + 1):
                span = TimeRange(int(starts[index]), int(ends[index]))
                first, last = segment.rows_between(span)
                if first < last:
                    ordered_maxima[index] = max(ordered_maxima[index], scores[position])
        maxima = np.zeros(len(spans))
        maxima[numbers] = ordered_maxima
        return maxima


def _end(span: TimeRange, before_ts: Micros) -> Micros:
    return before_ts if span.end is None else min(span.end, before_ts)


def _start(span: TimeRange) -> Micros:
    if span.start is None:
        return int(_TIMES.min)
    return span.start
