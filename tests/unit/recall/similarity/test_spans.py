"""Segments by the event times that they span."""

import random
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from archiver.time_range import TimeRange
from recall.similarity.events import CorpusEvent
from recall.similarity.measures import Vocabulary
from recall.similarity.segments import Segment
from recall.similarity.spans import RowsInSpan, SegmentSpans


def make_segment(times: list[int]) -> Segment:
    events = [
        CorpusEvent(ts, f"e{number}", number, {"x": 1}) for number, ts in enumerate(sorted(times))
    ]
    return Segment.from_events(0, events, Vocabulary())


def test_maximum_considers_only_segments_with_events_in_the_span() -> None:
    spans = SegmentSpans([make_segment([10, 40]), make_segment([20])])
    scores = np.array([0.5, 0.9])
    pieces = [TimeRange(15, 30), TimeRange(None, 15), TimeRange(30, 99)]
    assert spans.max_by_span(scores, pieces, before_ts=99).tolist() == [0.9, 0.5, 0.5]
    assert spans.max_by_span(scores, pieces, before_ts=20).tolist() == [0.0, 0.5, 0.0]


def test_maximum_of_no_segments_is_zero() -> None:
    spans = SegmentSpans([])
    assert spans.max_by_span(np.zeros(0), [TimeRange(None, 5)], before_ts=9).tolist() == [0.0]


def test_rows_between_leaves_out_segments_with_a_gap_there() -> None:
    spans = SegmentSpans([make_segment([10, 40]), make_segment([20])])
    assert list(spans.rows_between(TimeRange(15, 40))) == [RowsInSpan(1, 0, 1)]
    assert list(spans.rows_between(TimeRange())) == [RowsInSpan(0, 0, 2), RowsInSpan(1, 0, 1)]


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 60), min_size=1, max_size=4), st.floats(0, 1)), max_size=8
    ),
    st.sets(st.integers(0, 60), max_size=6),
    st.integers(0, 70),
    st.randoms(use_true_random=False),
)
def test_maximum_is_that_of_looking_at_each_event(
    segments: list[tuple[list[int], float]], cuts: set[int], before: int, rng: random.Random
) -> None:
    borders = [None, *sorted(cuts), 61]
    pieces = [TimeRange(low, high) for low, high in pairwise(borders)]
    rng.shuffle(pieces)
    spans = SegmentSpans([make_segment(times) for times, _ in segments])
    scores = np.array([score for _, score in segments])
    expected = []
    for piece in pieces:
        in_piece = [
            score
            for times, score in segments
            if any(piece.contains(ts) and ts < before for ts in times)
        ]
        expected.append(max(in_piece, default=0.0))
    assert spans.max_by_span(scores, pieces, before).tolist() == expected
