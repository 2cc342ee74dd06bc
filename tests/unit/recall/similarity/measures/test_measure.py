"""Similarity measures: the formulas of the paper and of the documentation, computed by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import timedelta

import numpy as np
import pytest

from recall.relevance.rankers.ready_contexts import rank_similar
from recall.similarity.measures import MEASURES
from recall.similarity.measures.corpus import ContextVectors
from tests.unit.recall.contexts import E1, E2, E3, make_alerts, make_corpus, pairs

TFIDF, BINARY, ATTRIBUTES = MEASURES["tfidf"], MEASURES["binary"], MEASURES["attributes"]
NO_GAP = timedelta(0)


def _cosine_by_hand(query: str, past: str, log: Callable[[float], float]) -> float:
    contexts = {"e1": E1, "e2": E2, "e3": E3}

    def weights(name: str) -> dict[str, float]:
        by_term = {}
        for term, count in contexts[name].items():
            frequency = sum(term in context for context in contexts.values())
            by_term[term] = count * log(3 / frequency)
        return by_term

    query_weights, past_weights = weights(query), weights(past)
    product = sum(weight * past_weights.get(term, 0.0) for term, weight in query_weights.items())
    return product / (math.hypot(*query_weights.values()) * math.hypot(*past_weights.values()))


def test_tfidf_scores_the_example_of_the_paper() -> None:
    rows = list(rank_similar(make_alerts(E1, E2, E3), NO_GAP, 10, TFIDF, leave_one_out=True))
    scores = {(query, event): score for query, _, event, score in rows}
    # The paper rounds log10(3) and log10(3/2) to two digits, which makes 0.203 and 0.287.
    for (query, past), printed in {("e1", "e3"): 0.203, ("e2", "e3"): 0.287}.items():
        exact = _cosine_by_hand(query, past, math.log10)
        rounded = _cosine_by_hand(query, past, lambda x: round(math.log10(x), 2))
        assert scores[query, past] == pytest.approx(exact, abs=1e-12)
        assert rounded == pytest.approx(printed, abs=5e-4)
    assert scores["e3", "e1"] == scores["e1", "e3"]
    assert ("e1", "e2") not in scores
    assert ("e2", "e1") not in scores


def test_counts_include_the_query_and_no_later_event() -> None:
    # At e2: E = 2, both events contain a, which weighs nothing. At e3: E = 3, two contain a.
    contexts = (
        {"a=1": 1, "b=1": 1},
        {"a=1": 1, "c=1": 1},
        {"a=1": 1, "c=1": 1, "d=1": 1},
        {"z=1": 1},
    )
    assert pairs(rank_similar(make_alerts(*contexts), NO_GAP, 10, TFIDF)) == [("e3", "e2")]


def test_tfidf_weights_term_counts_and_binary_does_not() -> None:
    contexts = {"a=1": 5, "b=1": 1}, {"a=1": 1, "b=1": 5}, {"z=1": 1}, {"a=1": 9, "b=1": 1}
    alerts = make_alerts(*contexts)
    tfidf = [row for row in rank_similar(alerts, NO_GAP, 10, TFIDF) if row[0] == "e4"]
    binary = [row for row in rank_similar(alerts, NO_GAP, 10, BINARY) if row[0] == "e4"]
    assert pairs(tfidf) == [("e4", "e1"), ("e4", "e2")]
    assert pairs(binary) == [("e4", "e2"), ("e4", "e1")]
    assert [score for *_, score in binary] == [1, 1]


def test_binary_is_the_cosine_of_the_sets_of_terms() -> None:
    [(_, _, _, score)] = rank_similar(make_alerts(E2, E3), NO_GAP, 10, BINARY)
    assert score == pytest.approx(2 / math.sqrt(4 * 3))


def test_attributes_score_is_the_documented_formula() -> None:
    contexts = {"h=1": 1, "m=a": 7, "m=b": 1}, {"h=1": 1, "m=a": 1, "m=c": 1}, {"h=2": 1, "m=z": 1}
    rows = rank_similar(make_alerts(*contexts), NO_GAP, 10, ATTRIBUTES, leave_one_out=True)
    # The self-information of terms that two events of three contain, and that one contains.
    of_two, of_one = math.log(3 / 2), math.log(3)
    host = of_two / math.sqrt(math.sqrt(of_two) * math.sqrt(of_two))
    message = of_two / math.sqrt(of_two + of_one)
    norm = math.sqrt(of_two) + math.sqrt(of_two + of_one)
    expected = pytest.approx((host + message) / norm, abs=1e-12)
    scores = {(query, event): score for query, _, event, score in rows}
    assert scores == {("e1", "e2"): expected, ("e2", "e1"): expected}


def test_attribute_with_many_terms_does_not_outweigh_the_others() -> None:
    messages = {f"m={number}": 1 for number in range(10)}
    state = {f"{name}=1": 1 for name in ("host", "state", "user", "job")}
    same_messages, same_state = {**messages, "host=2": 1}, {"m=x": 1, **state}
    query = {**messages, **state}
    alerts = make_alerts(same_messages, same_state, {"m=y": 1}, {"m=v": 1}, query)
    hits = {}
    for name, measure in MEASURES.items():
        rows = rank_similar(alerts, NO_GAP, 10, measure)
        hits[name] = [event for query_id, _, event, _ in rows if query_id == "e5"]
    assert hits["tfidf"] == hits["binary"] == ["e1", "e2"]
    assert hits["attributes"] == ["e2", "e1"]


def test_attributes_contributions_are_parts_of_the_score() -> None:
    corpus = make_corpus(
        {"h=1": 1, "m=a": 7, "m=b": 1}, {"h=1": 1, "m=a": 1, "m=c": 1}, {"h=2": 1, "m=z": 1}
    )
    counts = corpus.counts()
    query, past = corpus.contexts[0], corpus.contexts[1]
    without_host = corpus.vocabulary.encode({"h=9": 1, "m=a": 1, "m=c": 1})
    contributions = ATTRIBUTES.term_contributions(query, past, counts)
    terms = corpus.vocabulary.decode_terms(query.terms)
    by_term = dict(zip(terms, contributions, strict=True))
    assert by_term["m=b"] == 0
    host = math.log(3 / 2) ** 0.5
    message = math.log(3 / 2) / math.sqrt(math.log(4.5))
    assert by_term["h=1"] / by_term["m=a"] == pytest.approx(host / message, rel=1e-9)
    assert ATTRIBUTES.term_contributions(query, without_host, counts)[0] == 0


@pytest.mark.parametrize("name", MEASURES)
def test_equal_contexts_score_one(name: str) -> None:
    corpus = make_corpus(E1, E2, E3, E3)
    scores = MEASURES[name].score_rows(
        corpus.contexts[2], corpus.contexts.oldest_rows(4), corpus.counts()
    )
    assert scores[3] == pytest.approx(1, abs=1e-12)
    assert (scores[:2] < 1).all()


@pytest.mark.parametrize("name", MEASURES)
def test_empty_context_has_no_hits(name: str) -> None:
    alerts = make_alerts({}, {}, E1, E1, {}, E2)
    assert pairs(rank_similar(alerts, NO_GAP, 10, MEASURES[name])) == [("e4", "e3")]


def test_term_without_counted_event_weighs_as_if_one_event_had_it() -> None:
    corpus = make_corpus(E1, E2, E3)
    counts, query = corpus.counts(), corpus.contexts[2]
    past = corpus.vocabulary.encode({"user=u2": 1, "user=new": 1})
    [score] = TFIDF.score_rows(query, ContextVectors([past]).oldest_rows(1), counts)
    u2, p1, p3, new = (math.log10(3 / frequency) for frequency in (2, 2, 2, 1))
    expected = u2**2 / math.sqrt((u2**2 + p1**2 + p3**2) * (u2**2 + new**2))
    assert score == pytest.approx(expected, abs=1e-11)


def test_mathematically_equal_scores_tie() -> None:
    # The same weights in a different order of summation: the last bits would differ.
    terms = {f"n={number}": 1 + number % 7 for number in range(40)}
    first = {**terms, "x=1": 3}
    second = {"y=1": 3, **dict(reversed(terms.items()))}
    query = {**terms, "x=1": 3, "y=1": 3}
    rows = list(rank_similar(make_alerts(first, second, {"z=1": 1}, query), NO_GAP, 10, TFIDF))
    assert pairs(rows)[-2:] == [("e4", "e2"), ("e4", "e1")]
    assert rows[-1][3] == rows[-2][3]


def test_scores_are_numpy_arrays_of_all_rows() -> None:
    corpus = make_corpus(E1, E2, E3)
    for measure in MEASURES.values():
        scores = measure.score_rows(
            corpus.contexts[0], corpus.contexts.oldest_rows(3), corpus.counts()
        )
        assert scores.shape == (3,)
        assert scores.dtype == np.float64
