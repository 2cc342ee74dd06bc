"""Votes of the most similar resolved events for their tags."""

import numpy as np

from recall.learning.votes import Votes
from recall.similarity.measures import Corpus

UNIFORM = np.array([0.5, 0.5])


def make_votes(count: int) -> tuple[Votes, Corpus]:
    """Events of two tags, each with a term of its own."""
    corpus, votes = Corpus(), Votes()
    for number in range(count):
        context = corpus.add(number, {f"msg={number % 2}": 1, f"host={number % 7}": 1})
        votes.add(context, number % 2)
    return votes, corpus


def test_similar_events_vote_for_their_tag() -> None:
    votes, corpus = make_votes(40)
    shares = votes.count(corpus.vocabulary.encode({"msg=1": 1}), corpus.counts(), UNIFORM)
    assert shares[0, 1] > 0.9
    np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_events_as_similar_as_the_most_similar_one_share_its_vote() -> None:
    corpus, votes = Corpus(), Votes()
    for number, tag in enumerate([0, 1, 1, 0, 0]):
        terms = {"msg=1": 1, "host=1": 1} if number < 3 else {"msg=1": 1, f"host={number}": 1}
        votes.add(corpus.add(number, terms), tag)
    context = corpus.vocabulary.encode({"msg=1": 1, "host=1": 1})
    shares = votes.count(context, corpus.counts(), UNIFORM)
    np.testing.assert_allclose(shares[1], (np.array([1, 2]) / 3 + 0.3 * UNIFORM) / 1.3)


def test_event_without_a_shared_term_has_the_frequencies() -> None:
    votes, corpus = make_votes(40)
    frequencies = np.array([0.3, 0.7])
    shares = votes.count(corpus.vocabulary.encode({"other=1": 1}), corpus.counts(), frequencies)
    np.testing.assert_allclose(shares, [frequencies, frequencies])


def test_only_the_newest_events_vote_also_after_storing() -> None:
    votes, corpus = make_votes(2500)
    arrays = votes.to_arrays()
    assert len(arrays["tags"]) == 1000
    restored = Votes.from_arrays(arrays)
    context, counts = corpus.vocabulary.encode({"msg=0": 1, "host=3": 1}), corpus.counts()
    expected = votes.count(context, counts, UNIFORM)
    np.testing.assert_array_equal(restored.count(context, counts, UNIFORM), expected)


def test_events_with_many_terms_are_fewer() -> None:
    corpus, votes = Corpus(), Votes()
    terms = {f"msg={number}": 1 for number in range(300)}
    for number in range(100):
        votes.add(corpus.add(number, terms), number)
    assert votes.to_arrays()["tags"].tolist() == list(range(34, 100))
