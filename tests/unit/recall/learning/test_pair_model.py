"""Weights of pairs: the prior, and what samples teach."""

import numpy as np

from recall.learning.pair_model import Feature, PairModel, PairSample, sample_losses


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


def test_fitted_weights_that_rank_worse_give_way_to_the_base() -> None:
    """What told the relevant events of the past says the contrary now."""
    rng = np.random.default_rng(1)
    model = PairModel(refits=False)
    for _ in range(60):
        model.learn(make_sample(rng, Feature.PLACE))
    model.fit()
    assert model.fitted_weights[Feature.PLACE] > 3
    for _ in range(20):
        sample = make_sample(rng, Feature.ATTRIBUTES)
        sample.features[:, Feature.PLACE] = ~sample.relevant
        model.learn(sample)
    assert model.mixture.weights[-3:].sum() < 0.1
    assert model.weights[Feature.ATTRIBUTES] > model.weights[Feature.PLACE]


def test_losses_of_rankings_are_cross_entropies() -> None:
    sample = PairSample(
        np.zeros((4, len(Feature))), np.array([True, False, False, False]), np.ones(4)
    )
    rankings = np.zeros((2, len(Feature)))
    np.testing.assert_allclose(sample_losses(sample, rankings), np.log(4))


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
