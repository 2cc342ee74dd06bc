"""Scores over inverted lists are those of comparing row by row."""

import numpy as np
import pytest

from recall.learning.fixed_voters import FixedVoters
from recall.learning.votes import Votes, score_by_attributes
from recall.similarity.measures import ContextVectors, Corpus

FREQUENCIES = np.array([0.2, 0.3, 0.5])


def _make_votes(seed: int) -> tuple[Votes, ContextVectors, Corpus]:
    """Some terms are in all contexts, so that they weigh nothing."""
    rng = np.random.default_rng(seed)
    corpus, votes, contexts = Corpus(), Votes(), ContextVectors()
    for number in range(300):
        terms = {f"a{rng.integers(5)}=t{min(int(rng.zipf(1.5)), 40)}": 1 for _ in range(6)}
        context = corpus.add(number, {**terms, "all=x": 1})
        contexts.extend([context])
        votes.add(context, number % 3)
    return votes, contexts, corpus


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_single_rows(seed: int) -> None:
    votes, contexts, corpus = _make_votes(seed)
    counts, rows = corpus.counts(), contexts.oldest_rows(300)
    voters = FixedVoters(rows, counts)
    for number in range(50):
        new = {f"a{number % 5}=t{number % 7}": 2, "all=x": 1, f"new=n{number}": 1, "a1=t2": 1}
        context = corpus.vocabulary.encode(new)
        expected = score_by_attributes(context, counts, rows)
        np.testing.assert_allclose(voters.score(context), expected, rtol=0, atol=1e-11)
        np.testing.assert_allclose(
            votes.share(votes.fix(counts).score(context), FREQUENCIES),
            votes.count(context, counts, FREQUENCIES),
        )


@pytest.mark.parametrize("terms", [{}, {"all=x": 1}, {"other=y": 1}])
def test_context_without_a_telling_term_scores_zero(terms: dict[str, int]) -> None:
    votes, _, corpus = _make_votes(0)
    counts = corpus.counts()
    assert not votes.fix(counts).score(corpus.vocabulary.encode(terms)).any()


def test_without_events_there_are_no_scores() -> None:
    corpus = Corpus()
    scores = Votes().fix(corpus.counts()).score(corpus.vocabulary.encode({"a=1": 1}))
    assert len(scores) == 0
