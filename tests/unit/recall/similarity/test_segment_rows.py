"""Rows of several segments."""

import numpy as np

from recall.similarity.events import CorpusEvent
from recall.similarity.measures.corpus import Vocabulary
from recall.similarity.segment_rows import unite_rows
from recall.similarity.segments.segment import Segment


def make_segments() -> list[Segment]:
    vocabulary = Vocabulary()
    segments = []
    for chunk in range(3):
        events = [CorpusEvent(10 * chunk + n, f"e{n}", n, {"x=1": 1}) for n in range(5)]
        segments.append(Segment.from_events(chunk, events, vocabulary))
    return segments


def test_rows_of_both_are_united_each_once() -> None:
    first, second, third = make_segments()
    united = unite_rows(
        {first: np.array([3, 1]), second: np.array([0])},
        {first: np.array([4, 3, 0]), third: np.array([2])},
    )
    assert {segment: rows.tolist() for segment, rows in united.items()} == {
        first: [0, 1, 3, 4],
        second: [0],
        third: [2],
    }
