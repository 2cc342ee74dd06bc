"""The probability of tags given terms, learned one event at a time."""

import numpy as np
import pytest

from recall.learning.tag_model import TagModel
from recall.similarity.measures import Vocabulary


def train(
    model: TagModel, vocabulary: Vocabulary, events: list[tuple[dict[str, int], str]]
) -> None:
    for terms, tag in events:
        context = vocabulary.encode(terms)
        error = None
        tag_id = model.find_tag(tag)
        if tag_id is not None:
            error = model.predict(context, vocabulary.attributes).error(tag_id)
        model.learn(context, tag, error)


def probability(model: TagModel, vocabulary: Vocabulary, terms: dict[str, int], tag: str) -> float:
    prediction = model.predict(vocabulary.encode(terms), vocabulary.attributes)
    assert prediction.probabilities.sum() == pytest.approx(1)
    tag_id = model.find_tag(tag)
    assert tag_id is not None
    return float(prediction.probabilities[tag_id])


def test_single_term_counts_as_its_smoothed_share() -> None:
    model, vocabulary = TagModel(use_recency=False), Vocabulary()
    for tag in ("a", "a", "a", "b"):
        model.learn(vocabulary.encode({"x=1": 1}), tag, None)
    prediction = model.predict(vocabulary.encode({"x=1": 1}), vocabulary.attributes)
    shares = model.tag_shares
    # Counted 3 and 1 times, and once more with the shares of all events.
    expected = (np.array([3, 1]) + shares) / 5 / shares
    np.testing.assert_allclose(np.exp(prediction.evidence[2]), expected)


@pytest.mark.filterwarnings("error")
def test_events_without_terms_count_for_their_tags_alone() -> None:
    model, vocabulary = TagModel(), Vocabulary()
    train(model, vocabulary, [({}, "a"), ({}, "a"), ({}, "b"), ({}, "a")])
    assert probability(model, vocabulary, {}, "a") > probability(model, vocabulary, {}, "b")


def test_attribute_without_information_loses_weight_to_one_with() -> None:
    rng = np.random.default_rng(1)
    model, vocabulary = TagModel(), Vocabulary()
    events = []
    for _ in range(300):
        tag = "ab"[int(rng.integers(2))]
        events.append(({f"tells={tag}": 1, f"noise={int(rng.integers(40))}": 1}, tag))
    train(model, vocabulary, events)
    context = vocabulary.encode({"tells=a": 1, "noise=3": 1})
    a = model.find_tag("a")
    assert a is not None
    by_term = dict(
        zip(
            vocabulary.decode_terms(context.terms),
            model.term_evidence(context, vocabulary.attributes, a),
            strict=True,
        )
    )
    assert by_term["tells=a"] > 1
    assert abs(by_term["noise=3"]) < 0.5
    assert probability(model, vocabulary, {"tells=a": 1, "noise=3": 1}, "a") > 0.9


def test_changed_meaning_is_learned_anew() -> None:
    model, vocabulary = TagModel(), Vocabulary()
    first = [({"x=1": 1}, "a"), ({"x=2": 1}, "b")] * 100
    train(model, vocabulary, first)
    assert probability(model, vocabulary, {"x=1": 1}, "a") > 0.9
    train(model, vocabulary, [({"x=1": 1}, "b"), ({"x=2": 1}, "a")] * 40)
    assert probability(model, vocabulary, {"x=1": 1}, "b") > 0.6


def test_unknown_terms_leave_the_shares_of_tags() -> None:
    model, vocabulary = TagModel(use_recency=False), Vocabulary()
    for tag in ("a", "a", "b"):
        model.learn(vocabulary.encode({"x=1": 1}), tag, None)
    context = vocabulary.encode({"y=1": 1})
    prediction = model.predict(context, vocabulary.attributes)
    np.testing.assert_allclose(prediction.probabilities, model.tag_shares)
    assert model.unknown_share(context) == 1


def test_more_tags_and_terms_than_the_first_capacity() -> None:
    model, vocabulary = TagModel(), Vocabulary()
    for number in range(1500):
        model.learn(vocabulary.encode({f"x={number}": 1, "all=1": 1}), f"t{number}", None)
    assert len(model.tags) == 1500
    assert probability(model, vocabulary, {"x=1400": 1}, "t1400") > 0.01
