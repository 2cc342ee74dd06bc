"""The index of a corpus: pinned counts, and segments."""

import numpy as np
import pytest

from archiver.time_range import TimeRange
from recall.similarity.comparison import Comparison, restore_top
from recall.similarity.events import CorpusEvent
from recall.similarity.index import Index
from recall.similarity.measures import MEASURES


def _frequencies(index: Index, event: CorpusEvent) -> dict[str, float]:
    """E and C_k as pinned for an event, by term."""
    pinned = index.pin_counts(event)
    terms = np.arange(len(index.vocabulary), dtype=np.int32)
    frequencies = pinned.document_frequencies(terms).tolist()
    names = index.vocabulary.decode_terms(terms)
    return {"E": pinned.event_count, **dict(zip(names, frequencies, strict=True))}


def test_later_events_do_not_change_a_pinned_answer() -> None:
    index = Index()
    index.add(0, [CorpusEvent(1, "a", 1, {"x": 1, "y": 1}), CorpusEvent(2, "b", 2, {"y": 1})])
    event = CorpusEvent(10, "q", 2, {"x": 1, "z": 1})
    before = index.pin_counts(event)
    terms = np.arange(len(index.vocabulary), dtype=np.int32)
    frequencies = before.document_frequencies(terms).tolist()
    index.add(0, [CorpusEvent(3, "c", 3, {"x": 1, "z": 1})])
    after = index.pin_counts(event)
    assert before.event_count == after.event_count
    assert before.document_frequencies(terms).tolist() == frequencies
    assert after.document_frequencies(terms).tolist() == frequencies
    comparison = Comparison(event, after, MEASURES["tfidf"], restore_top(5, []), 10, 2)
    index.score([comparison], [TimeRange(None, 10)])
    assert [hit.event[1] for hit in comparison.top.hits] == ["a"]


def test_event_counts_itself_once() -> None:
    index = Index()
    event = CorpusEvent(5, "q", 1, {"x": 1})
    assert index.pin_counts(event).event_count == 1
    index.add(0, [event])
    assert index.pin_counts(event).event_count == 1


def test_newer_events_are_not_counted() -> None:
    index = Index()
    index.add(0, [CorpusEvent(1, "a", 1, {"x": 1, "y": 1}), CorpusEvent(9, "b", 2, {"x": 1})])
    event = CorpusEvent(5, "q", 2, {"x": 1, "z": 1})
    assert _frequencies(index, event) == {"E": 2, "x": 2, "y": 1, "z": 1}
    assert index.pin_counts(event).newest_ts == 5


def test_small_segments_of_a_chunk_are_merged() -> None:
    index = Index()
    for sequence in range(1, 65):
        chunk = sequence % 2
        index.add(chunk, [CorpusEvent(sequence, f"e{sequence:02}", sequence, {"x": 1})])
    sizes = {0: [], 1: []}
    for segment in index.segments:
        sizes[segment.chunk].append(len(segment))
    assert sizes == {0: [32], 1: [32]}
    assert (len(index), index.last_sequence) == (64, 64)


def test_context_of_an_unknown_event_is_an_error() -> None:
    index = Index()
    index.add(0, [CorpusEvent(1, "a", 1, {"x": 1})])
    assert index.vocabulary.decode_terms(index.context((1, "a")).terms) == ["x"]
    with pytest.raises(KeyError):
        index.context((1, "b"))
