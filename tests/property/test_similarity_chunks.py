"""However history is cut into chunks, the best k are the same, and scores are those of the plain formula."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import pairwise
from math import log10, sqrt
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recall.relevance.ready_contexts import AlertContext, find_similar
from recall.similarity.corpus import ContextVectors, Corpus
from recall.similarity.measure import MEASURES
from recall.similarity.ranking import TopK, explain_score

Facts = dict[str, int]

terms = st.sampled_from([f"{name}={value}" for name in "abc" for value in range(4)])
bags = st.dictionaries(terms, st.one_of(st.just(1), st.integers(1, 50)), max_size=8)
# Those that `plain` knows.
measures = st.sampled_from(["binary", "tfidf"])


def plain(measure: str, query: Facts, past: Facts, counted: Sequence[Facts]) -> float:
    """The formula as it stands in the paper."""

    def weights(bag: Facts) -> dict[str, float]:
        if measure == "binary":
            return dict.fromkeys(bag, 1.0)
        held = {term: sum(term in other for other in counted) for term in bag}
        return {
            term: count * log10(len(counted) / max(held[term], 1)) for term, count in bag.items()
        }

    ours, theirs = weights(query), weights(past)
    product = sum(weight * theirs.get(term, 0) for term, weight in ours.items())
    norms = (sum(weight**2 for weight in bag.values()) for bag in (ours, theirs))
    return product / sqrt(np.prod(list(norms))) if product else 0.0


def chunks(size: int, borders: Sequence[int]) -> list[range]:
    cuts = [0, *sorted(border % (size + 1) for border in borders), size]
    return [range(a, b) for a, b in pairwise(cuts)]


@given(
    st.lists(bags, min_size=1, max_size=40),
    bags,
    measures,
    st.integers(1, 12),
    st.lists(st.integers(0, 40), max_size=6),
    st.randoms(use_true_random=False),
)
def test_chunks_do_not_show(
    past: list[Facts], query: Facts, measure: str, k: int, borders: list[int], random: Random
) -> None:
    corpus = Corpus()
    for ts, facts in enumerate([*past, query]):
        corpus.add(ts, facts)
    asked, counts = corpus.contexts[len(past)], corpus.counts()
    whole: TopK[int] = TopK(k)
    whole.add(
        range(len(past)),
        MEASURES[measure].score_rows(asked, corpus.contexts.oldest_rows(len(past)), counts),
    )

    pieces = chunks(len(past), borders)
    random.shuffle(pieces)
    merged: TopK[int] = TopK(k)
    for piece in pieces:
        rows = ContextVectors(corpus.contexts[row] for row in piece).oldest_rows(len(piece))
        before = list(merged.hits)
        assert merged.add(piece, MEASURES[measure].score_rows(asked, rows, counts)) == (
            merged.hits != before
        )
    assert merged.hits == whole.hits

    expected = [plain(measure, query, facts, [*past, query]) for facts in past]
    assert [hit.score for hit in whole.hits] == pytest.approx(
        sorted((score for score in expected if score > 0), reverse=True)[:k], abs=1e-9
    )
    assert [expected[hit.event] for hit in whole.hits] == pytest.approx(
        [hit.score for hit in whole.hits], abs=1e-9
    )


@given(
    st.lists(st.integers(0, 4), max_size=60),
    st.integers(1, 10),
    st.lists(st.integers(0, 60), max_size=8),
)
def test_ties_across_chunks_go_to_the_newer(levels: list[int], k: int, borders: list[int]) -> None:
    scores = np.array(levels, dtype=np.float64) / 4
    top: TopK[int] = TopK(k)
    for piece in chunks(len(levels), borders):
        top.add(piece, scores[piece.start : piece.stop])
    rows = sorted(
        (row for row, level in enumerate(levels) if level),
        key=lambda row: (levels[row], row),
        reverse=True,
    )
    assert [hit.event for hit in top.hits] == rows[:k]


events = st.lists(st.tuples(st.integers(0, 20), st.sampled_from("tu"), bags), max_size=25)


@given(events, st.integers(0, 6), measures, st.booleans())
def test_a_run_is_the_plain_formula(
    made: list[tuple[int, str, Facts]], gap: int, measure: str, leave_one_out: bool
) -> None:
    alerts = [AlertContext(str(i), kind, ts, facts) for i, (ts, kind, facts) in enumerate(made)]
    ordered = sorted(alerts, key=lambda alert: alert.ts)
    span = timedelta(microseconds=gap)
    found = list(find_similar(alerts, span, len(alerts) + 1, MEASURES[measure], leave_one_out))
    assert [answer.query for answer in found] == ordered
    for place, answer in enumerate(found):
        query = answer.query
        kin = [other for other in ordered if other.event_type == query.event_type]
        counted = (
            kin
            if leave_one_out
            else [o for o in ordered[: place + 1] if o.event_type == query.event_type]
        )
        older = [o for o in kin if o.ts < query.ts and o.ts <= query.ts - gap]
        candidates = [o for o in kin if o is not query] if leave_one_out else older
        facts = [o.term_counts for o in counted]
        expected = {
            o.event_id: plain(measure, dict(query.term_counts), dict(o.term_counts), facts)
            for o in candidates
        }
        scores = {past.event_id: score for past, score in answer.hits}
        assert scores == pytest.approx(
            {name: score for name, score in expected.items() if score > 0}, abs=1e-9
        )


@given(st.lists(bags, min_size=2, max_size=15), measures)
def test_shares_explain_the_whole_score(past: list[Facts], measure: str) -> None:
    corpus = Corpus()
    for ts, facts in enumerate(past):
        corpus.add(ts, facts)
    query, other = corpus.contexts[len(past) - 1], corpus.contexts[0]
    found = explain_score(MEASURES[measure], corpus.vocabulary, query, other, corpus.counts())
    assert set(found.shared_terms) == set(past[-1]) & set(past[0])
    assert set(found.only_query) == set(past[-1]) - set(past[0])
    assert set(found.only_past) == set(past[0]) - set(past[-1])
    assert sum(found.shared_terms.values()) == pytest.approx(1 if found.score > 0 else 0)
