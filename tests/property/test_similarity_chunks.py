"""The best hits do not depend on the division into chunks, and scores follow the formula."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from math import hypot, log10
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall.relevance.rankers.ready_contexts import AlertContext, find_similar
from recall.similarity.measures import MEASURES
from recall.similarity.measures.corpus import ContextVectors, Corpus
from recall.similarity.ranking import TopK, explain_score

TermCounts = dict[str, int]

terms = st.sampled_from([f"{name}={value}" for name in "abc" for value in range(4)])
term_counts = st.dictionaries(terms, st.one_of(st.just(1), st.integers(1, 50)), max_size=8)
events = st.lists(st.tuples(st.integers(0, 20), st.sampled_from("tu"), term_counts), max_size=25)
# The measures that `_score_by_formula` implements.
measures = st.sampled_from(["binary", "tfidf"])


def _score_by_formula(
    measure: str, query: TermCounts, past: TermCounts, counted: Sequence[TermCounts]
) -> float:
    """The formula as in the paper. `counted`: the contexts behind E and C_k."""

    def weights(context: TermCounts) -> dict[str, float]:
        if measure == "binary":
            return dict.fromkeys(context, 1.0)
        by_term = {}
        for term, count in context.items():
            frequency = sum(term in other for other in counted)
            by_term[term] = count * log10(len(counted) / max(frequency, 1))
        return by_term

    query_weights, past_weights = weights(query), weights(past)
    product = sum(weight * past_weights.get(term, 0) for term, weight in query_weights.items())
    if not product:
        return 0.0
    return product / (hypot(*query_weights.values()) * hypot(*past_weights.values()))


def _make_corpus(contexts: Sequence[TermCounts]) -> Corpus:
    corpus = Corpus()
    for ts, context in enumerate(contexts):
        corpus.add(ts, context)
    return corpus


def _cut(size: int, borders: Sequence[int]) -> list[range]:
    cuts = [0, *sorted(border % (size + 1) for border in borders), size]
    return [range(first, last) for first, last in pairwise(cuts)]


@given(
    st.lists(term_counts, min_size=1, max_size=40),
    term_counts,
    measures,
    st.integers(1, 12),
    st.lists(st.integers(0, 40), max_size=6),
    st.randoms(use_true_random=False),
)
def test_hits_do_not_depend_on_chunks(
    past: list[TermCounts],
    query: TermCounts,
    measure_name: str,
    k: int,
    borders: list[int],
    random: Random,
) -> None:
    measure = MEASURES[measure_name]
    corpus = _make_corpus([*past, query])
    context, counts = corpus.contexts[len(past)], corpus.counts()
    at_once: TopK[int] = TopK(k)
    all_rows = corpus.contexts.oldest_rows(len(past))
    at_once.add(range(len(past)), measure.score_rows(context, all_rows, counts))

    chunks = _cut(len(past), borders)
    random.shuffle(chunks)
    by_chunk: TopK[int] = TopK(k)
    for chunk in chunks:
        rows = ContextVectors(corpus.contexts[row] for row in chunk).oldest_rows(len(chunk))
        before = list(by_chunk.hits)
        changed = by_chunk.add(chunk, measure.score_rows(context, rows, counts))
        assert changed == (by_chunk.hits != before)
    assert by_chunk.hits == at_once.hits

    expected = []
    for past_context in past:
        expected.append(_score_by_formula(measure_name, query, past_context, [*past, query]))
    hit_scores = [hit.score for hit in at_once.hits]
    best_scores = sorted((score for score in expected if score > 0), reverse=True)[:k]
    assert hit_scores == pytest.approx(best_scores, abs=1e-9)
    assert [expected[hit.event] for hit in at_once.hits] == pytest.approx(hit_scores, abs=1e-9)


@given(
    st.lists(st.integers(0, 4), max_size=60),
    st.integers(1, 10),
    st.lists(st.integers(0, 60), max_size=8),
)
def test_equal_scores_of_different_chunks_are_ordered_newest_first(
    levels: list[int], k: int, borders: list[int]
) -> None:
    scores = np.array(levels, dtype=np.float64) / 4
    top: TopK[int] = TopK(k)
    for chunk in _cut(len(levels), borders):
        top.add(chunk, scores[chunk.start : chunk.stop])
    ranked = sorted(((level, row) for row, level in enumerate(levels) if level), reverse=True)
    assert [hit.event for hit in top.hits] == [row for _, row in ranked[:k]]


@given(events, st.integers(0, 6), measures, st.booleans())
def test_scores_of_candidates_follow_the_formula(
    drawn: list[tuple[int, str, TermCounts]], gap: int, measure: str, leave_one_out: bool
) -> None:
    alerts = []
    for number, (ts, event_type, context) in enumerate(drawn):
        alerts.append(AlertContext(str(number), event_type, ts, context))
    ordered = sorted(alerts, key=lambda alert: alert.ts)
    gap_duration = timedelta(microseconds=gap)
    answers = list(
        find_similar(alerts, gap_duration, len(alerts) + 1, MEASURES[measure], leave_one_out)
    )
    assert [answer.query for answer in answers] == ordered
    for position, answer in enumerate(answers):
        query = answer.query
        counted = ordered if leave_one_out else ordered[: position + 1]
        counted = [alert for alert in counted if alert.event_type == query.event_type]
        counted_contexts = [dict(alert.term_counts) for alert in counted]
        expected = {}
        for alert in counted:
            is_older = alert.ts < query.ts and alert.ts <= query.ts - gap
            if alert is query or not (leave_one_out or is_older):
                continue
            score = _score_by_formula(
                measure, dict(query.term_counts), dict(alert.term_counts), counted_contexts
            )
            if score > 0:
                expected[alert.event_id] = score
        scores = {past.event_id: score for past, score in answer.hits}
        assert scores == pytest.approx(expected, abs=1e-9)


@given(st.lists(term_counts, min_size=2, max_size=15), measures)
def test_shares_of_shared_terms_sum_to_one(contexts: list[TermCounts], measure: str) -> None:
    corpus = _make_corpus(contexts)
    newest, oldest = corpus.contexts[len(contexts) - 1], corpus.contexts[0]
    explanation = explain_score(
        MEASURES[measure], corpus.vocabulary, newest, oldest, corpus.counts()
    )
    assert set(explanation.shared_terms) == set(contexts[-1]) & set(contexts[0])
    assert set(explanation.only_query) == set(contexts[-1]) - set(contexts[0])
    assert set(explanation.only_past) == set(contexts[0]) - set(contexts[-1])
    total = sum(explanation.shared_terms.values())
    assert total == pytest.approx(1 if explanation.score > 0 else 0)
