"""Weights of pairs: the prior, and what samples teach."""

import numpy as np

from recall.learning.pair_model import Feature, PairModel, PairSample


def make_sample(rng: np.random.Generator, feature: Feature) -> PairSample:
    """One feature tells the relevant events; the others are noise."""
    features = rng.random((40, len(Feature)))
    return PairSample(features, features[:, feature] > 0.7, np.ones(40))


def test_begins_as_attributes_alone() -> None:
    model = PairModel()
    assert not model.is_fitted
    assert model.weights[Feature.ATTRIBUTES] > 0
    assert np.count_nonzero(model.weights) == 1


def test_weight_moves_to_the_feature_that_tells() -> None:
    rng = np.random.default_rng(1)
    model = PairModel()
    shares = []
    for _ in range(6):
        for _ in range(20):
            model.learn(make_sample(rng, Feature.PLACE))
        shares.append(model.weights[Feature.PLACE] / np.abs(model.weights).sum())
    assert model.is_fitted
    assert shares[-1] > shares[0]
    assert model.weights[Feature.PLACE] > 3


def test_few_samples_change_less_than_many() -> None:
    rng = np.random.default_rng(1)
    model = PairModel()
    weights = []
    for number in range(100):
        model.learn(make_sample(rng, Feature.BINARY))
        if number in (4, 99):
            weights.append(model.weights)
    assert weights[0][Feature.BINARY] < weights[1][Feature.BINARY]
    assert weights[0][Feature.ATTRIBUTES] > weights[1][Feature.ATTRIBUTES]
