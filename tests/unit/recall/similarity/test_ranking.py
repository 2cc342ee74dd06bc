"""The k best hits, and explanations of scores."""

import numpy as np
import pytest

from recall.similarity.measures import MEASURES
from recall.similarity.ranking import TopK, explain_score, top_rows
from tests.unit.recall.contexts import E1, E2, E3, make_corpus

TFIDF, BINARY = MEASURES["tfidf"], MEASURES["binary"]


def test_adding_returns_whether_the_hits_changed() -> None:
    top: TopK[int] = TopK(2)
    assert top.add([4, 5], np.array([0.5, 0.0]))
    assert not top.add([1, 2], np.array([0.0, 0.0]))
    assert top.add([3], np.array([0.5]))
    assert not top.add([0], np.array([0.5]))
    assert top.add([1], np.array([0.6]))
    assert [(hit.event, hit.score) for hit in top.hits] == [(1, 0.6), (4, 0.5)]


def test_minimum_score_is_zero_until_there_are_k_hits() -> None:
    top: TopK[int] = TopK(2)
    top.add([1], np.array([0.5]))
    assert top.min_score == 0
    top.add([2], np.array([0.25]))
    assert top.min_score == 0.25


def test_k_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="k must be at least 1, not 0"):
        TopK(0)


def test_top_rows_keeps_the_later_of_equal_scores() -> None:
    scores = np.array([0.5, 0.0, 0.5, 0.9, 0.5])
    assert top_rows(scores, 3).tolist() == [3, 4, 2]
    assert top_rows(scores, 9).tolist() == [3, 4, 2, 0]


def test_tfidf_shares_sum_to_one() -> None:
    corpus = make_corpus(E1, {**E2, "proc=p3": 4}, E3)
    counts = corpus.counts()
    explanation = explain_score(
        TFIDF, corpus.vocabulary, corpus.contexts[2], corpus.contexts[1], counts
    )
    assert explanation.shared_terms == pytest.approx({"proc=p3": 0.8, "user=u2": 0.2})
    assert list(explanation.shared_terms) == ["proc=p3", "user=u2"]
    assert sum(explanation.shared_terms.values()) == pytest.approx(1)
    assert explanation.only_query == ["proc=p1"]
    assert explanation.only_past == ["user=u3", "proc=p2"]
    assert (explanation.event_count, explanation.newest_ts) == (3, 2)
    scores = TFIDF.score_rows(corpus.contexts[2], corpus.contexts.oldest_rows(2), counts)
    assert explanation.score == scores[1]


def test_binary_shares_are_equal() -> None:
    corpus = make_corpus({"user=u2": 9, "proc=p3": 1}, E3)
    explanation = explain_score(
        BINARY, corpus.vocabulary, corpus.contexts[1], corpus.contexts[0], corpus.counts()
    )
    assert explanation.shared_terms == {"proc=p3": 0.5, "user=u2": 0.5}


def test_term_that_all_events_contain_has_no_share() -> None:
    corpus = make_corpus(E1, E1)
    explanation = explain_score(
        TFIDF, corpus.vocabulary, corpus.contexts[1], corpus.contexts[0], corpus.counts()
    )
    assert explanation.score == 0
    assert explanation.shared_terms == {"user=u1": 0, "proc=p1": 0}
