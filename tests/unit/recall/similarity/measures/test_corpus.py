"""Term vectors, the vocabulary, and E and C_k of a corpus."""

import numpy as np
import pytest

from tests.unit.recall.contexts import E1, E2, E3, make_corpus


def test_counts_do_not_change_when_events_are_added() -> None:
    corpus = make_corpus(E1, E2)
    counts, rows = corpus.counts(), corpus.contexts.oldest_rows(2)
    before = rows.weighted_sums(np.ones(rows.width)).tolist()
    for ts in range(2, 3000):
        corpus.add(ts, {**E3, f"n={ts}": 2})
    assert (counts.event_count, counts.newest_ts) == (2, 1)
    assert counts.document_frequencies.tolist() == [1] * 6
    assert before == [2, 4]
    assert rows.weighted_sums(np.ones(len(corpus.vocabulary))).tolist() == before
    assert corpus.counts().event_count == 3000


def test_counts_of_an_empty_corpus_have_no_time() -> None:
    counts = make_corpus().counts()
    assert (counts.event_count, counts.newest_ts) == (0, None)


def test_attribute_of_a_term_ends_at_the_first_equals_sign() -> None:
    vocabulary = make_corpus({"host=n1": 1, "msg=a=b": 2}, {"host=n2": 1, "bare": 1}).vocabulary
    terms = vocabulary.decode_terms(range(len(vocabulary)))
    attributes = dict(zip(terms, vocabulary.attributes.tolist(), strict=True))
    assert attributes["host=n1"] == attributes["host=n2"]
    assert len({attributes["host=n1"], attributes["msg=a=b"], attributes["bare"]}) == 3


def test_event_older_than_the_last_is_refused() -> None:
    corpus = make_corpus(E1, E2)
    with pytest.raises(ValueError, match="order of their times"):
        corpus.add(0, E3)


def test_sliced_rows_have_the_terms_of_the_slice() -> None:
    corpus = make_corpus(E1, {}, E2, E3)
    rows = corpus.contexts.oldest_rows(4).slice_rows(1, 3)
    width = len(corpus.vocabulary)
    assert rows.weighted_sums(np.ones(width)).tolist() == [0, 4]
    frequencies = rows.document_frequencies(width)
    assert corpus.vocabulary.decode_terms(np.flatnonzero(frequencies)) == sorted(
        E2, key=list(E2).index
    )


def test_document_frequencies_count_only_masked_rows() -> None:
    corpus = make_corpus({"a=1": 3}, {"a=1": 1, "b=1": 1})
    rows = corpus.contexts.oldest_rows(2)
    assert rows.document_frequencies(3).tolist() == [2, 1, 0]
    assert rows.document_frequencies(3, np.array([True, False])).tolist() == [1, 0, 0]
