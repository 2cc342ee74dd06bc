"""Segments of a chunk, their rows and inverted lists, and merging them."""

import numpy as np
import pytest

from archiver.time_range import TimeRange
from recall.similarity.events import CorpusEvent
from recall.similarity.measures import MEASURES
from recall.similarity.measures.corpus import CorpusCounts, Vocabulary
from recall.similarity.segments.pinned_counts import PinnedCounts
from recall.similarity.segments.segment import KnownRows, SearchBuffers, Segment
from recall.similarity.segments.segment_merge import merge_segments
from tests.sampled import every

EVENTS = [
    CorpusEvent(20, "b", 2, {"x=1": 1, "y=1": 300}, {0: [2.0]}),
    CorpusEvent(10, "a", 3, {"x=1": 2}, {0: [1.0, 1.5]}),
    CorpusEvent(20, "a", 1, {"z=1": 1}),
]


@pytest.fixture(name="vocabulary")
def _vocabulary() -> Vocabulary:
    vocabulary = Vocabulary()
    vocabulary.encode_terms(["unused=1", "z=1", "y=1", "x=1"])
    return vocabulary


def test_rows_are_ordered_by_time_and_id(vocabulary: Vocabulary) -> None:
    segment = Segment.from_events(0, EVENTS, vocabulary)
    assert [segment.key(row) for row in range(3)] == [(10, "a"), (20, "a"), (20, "b")]
    assert segment.key_range == ((10, "a"), (20, "b"))
    assert segment.newest_sequence == 3
    assert segment.find_row((20, "a")) == 1
    assert segment.find_row((20, "c")) == 3


def test_context_of_a_row_has_terms_of_the_vocabulary(vocabulary: Vocabulary) -> None:
    segment = Segment.from_events(0, EVENTS, vocabulary)
    context = segment.context(2)
    assert vocabulary.decode_terms(context.terms) == ["y=1", "x=1"]
    assert context.counts.tolist() == [300, 1]


def test_rows_between_times_exclude_the_end(vocabulary: Vocabulary) -> None:
    segment = Segment.from_events(0, EVENTS, vocabulary)
    assert segment.rows_between(TimeRange(None, 20)) == (0, 1)
    assert segment.rows_between(TimeRange(11, 21)) == (1, 3)
    assert segment.rows_between(TimeRange(21, 30)) == (3, 3)


def test_counted_rows_are_limited_by_key_and_sequence(vocabulary: Vocabulary) -> None:
    segment = Segment.from_events(0, EVENTS, vocabulary)
    assert segment.counted_rows((20, "b"), 3) is None
    by_key = segment.counted_rows((20, "a"), 3)
    by_sequence = segment.counted_rows((99, ""), 2)
    assert by_key is not None and by_key.tolist() == [True, True, False]
    assert by_sequence is not None and by_sequence.tolist() == [False, True, True]


def test_document_frequencies_are_by_the_terms_of_the_segment(vocabulary: Vocabulary) -> None:
    segment = Segment.from_events(0, EVENTS, vocabulary)
    assert vocabulary.decode_terms(segment.term_ids) == ["z=1", "y=1", "x=1"]
    assert segment.document_frequencies().tolist() == [1, 1, 2]
    mask = np.array([True, False, False])
    assert segment.document_frequencies(mask).tolist() == [0, 0, 1]


def test_merged_segment_equals_one_of_all_events(vocabulary: Vocabulary) -> None:
    parts = [Segment.from_events(5, [event], vocabulary) for event in EVENTS]
    merged = merge_segments(parts)
    expected = Segment.from_events(5, EVENTS, vocabulary)
    assert merged.chunk == 5
    assert merged.term_ids.tolist() == expected.term_ids.tolist()
    for name, array in expected.arrays.items():
        assert merged.arrays[name].tolist() == array.tolist(), name


@pytest.mark.parametrize("min_score", [0.0, 0.2])
@pytest.mark.parametrize("spread", every(2, [1.0, 0.1, 0.0]))
def test_no_score_exceeds_the_bounds_of_a_search(spread: float, min_score: float) -> None:
    """`spread`: by how much offsets of known rows differ, beside scores from 0 to 1."""
    rng = np.random.default_rng(2)
    vocabulary = Vocabulary()
    events = []
    for number in range(400):
        terms = {f"t={min(int(rng.zipf(1.3)), 90)}": int(rng.integers(1, 4)) for _ in range(9)}
        events.append(CorpusEvent(number, f"e{number:03}", number, terms))
    segment = Segment.from_events(0, events, vocabulary)
    query_context = vocabulary.encode({"t=1": 1, "t=7": 2, "t=20": 1, "t=31": 1, "t=90": 1})
    frequencies = np.zeros(len(vocabulary))
    frequencies[segment.term_ids] = segment.document_frequencies()
    segment.rebuild_bounds(np.log10(400), frequencies)
    pinned = PinnedCounts(400, frequencies, np.empty(0, dtype=np.int32), np.zeros(0), None)
    known = KnownRows(np.arange(7, 399, 3), rng.uniform(-spread, spread, 131))
    best, estimated = segment.search_bounds(
        pinned.weighted_query(query_context),
        known,
        max_sequence=390,
        rows=(5, 400),
        max_counts=(30, 20),
        least=(min_score, (5 * min_score - 1) * spread),
        buffers=SearchBuffers(),
    )
    counts = CorpusCounts(400, frequencies, None, vocabulary.attributes)
    scores = MEASURES["tfidf"].score_rows(query_context, segment.sparse_rows(0, 400), counts)
    estimates = np.full(400, -np.inf)
    estimates[known.rows] = scores[known.rows] + known.offsets
    rows = np.arange(400)
    estimates[(scores == 0) | (rows > 390)] = -np.inf
    scores[(rows < 5) | (rows > 390)] = 0
    for found, values, count in ((best, scores, 30), (estimated, estimates, 20)):
        assert 0 < len(found.rows) <= count
        assert (values[found.rows] <= found.bounds + found.skipped_bound).all()
        assert values[np.setdiff1d(rows, found.rows)].max() <= found.others_bound
        assert found.others_bound < values.max()


def test_bounds_without_known_rows_leave_none_open() -> None:
    vocabulary = Vocabulary()
    events = [CorpusEvent(n, f"e{n}", n, {"t=1": 1, f"t={n}": 1}) for n in range(9)]
    segment = Segment.from_events(0, events, vocabulary)
    frequencies = np.zeros(len(vocabulary))
    frequencies[segment.term_ids] = segment.document_frequencies()
    segment.rebuild_bounds(np.log10(9), frequencies)
    pinned = PinnedCounts(9, frequencies, np.empty(0, dtype=np.int32), np.zeros(0), None)
    _, estimated = segment.search_bounds(
        pinned.weighted_query(vocabulary.encode({"t=3": 1})),
        KnownRows(np.arange(9), np.zeros(9)).slice_rows(0, 0),
        max_sequence=9,
        rows=(0, 9),
        max_counts=(3, 3),
        least=(0.0, -np.inf),
        buffers=SearchBuffers(),
    )
    assert len(estimated.rows) == 0
    assert estimated.others_bound == -np.inf
