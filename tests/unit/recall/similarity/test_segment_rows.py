"""Rows of several segments."""

import numpy as np

from recall.similarity.events import CorpusEvent
from recall.similarity.measures.corpus import Vocabulary
from recall.similarity.segment_rows import is_among, key_of, select_rows, unite_rows
from recall.similarity.segments.segment import Segment


def make_segments() -> list[Segment]:
    vocabulary = Vocabulary()
    segments = []
    for chunk in range(3):
        events = [CorpusEvent(10 * chunk + n, f"e{n}", n, {"x=1": 1}) for n in range(5)]
        segments.append(Segment.from_events(chunk, events, vocabulary))
    return segments


def test_rows_of_both_are_united_each_once() -> None:
    first, second, third = segments = make_segments()
    named = {first: np.array([1, 3]), second: np.array([0])}
    best = {first: np.array([3, 4, 0]), third: np.array([2])}
    parts, is_named = unite_rows(segments, named, best)
    assert [(part.segment, part.rows.tolist()) for part in parts] == [
        (first, [1, 3, 4, 0]),
        (second, [0]),
        (third, [2]),
    ]
    assert is_named.tolist() == [True, True, False, False, True, False]
    assert [key_of(parts, number) for number in (2, 4, 5)] == [(4, "e4"), (10, "e0"), (22, "e2")]


def test_rows_are_selected_by_their_numbers() -> None:
    segments = make_segments()
    parts, _ = unite_rows(segments, {segment: np.array([1, 4]) for segment in segments}, {})
    selected = select_rows(parts, np.array([1, 4, 5]))
    assert [(part.segment, part.rows.tolist()) for part in selected] == [
        (segments[0], [4]),
        (segments[2], [1, 4]),
    ]
    assert select_rows(parts, np.array([], dtype=np.intp)) == []


def test_row_is_among_ascending_rows() -> None:
    assert is_among(np.array([5, 2, 9]), np.array([2, 5])).tolist() == [True, True, False]
    assert is_among(np.array([5, 2]), None).tolist() == [False, False]
