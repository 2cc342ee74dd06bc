"""Weights of predictors, and how much more the mixture loses than the best of them."""

import numpy as np
import pytest

from recall.learning.switching_mixture import SwitchingMixture, regret_bound

SHARE = 0.02
STEPS = 120


def draw_probabilities(rng: np.random.Generator, best: list[int]) -> np.ndarray:
    """By step and predictor, the probability of what happened; the best one changes."""
    probabilities = rng.uniform(0.02, 0.4, (STEPS, 4))
    probabilities[np.arange(STEPS), best] = rng.uniform(0.5, 0.95, STEPS)
    return probabilities


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("changes", [0, 1, 3])
def test_loss_stays_within_the_bound_of_any_sequence_of_predictors(seed: int, changes: int) -> None:
    rng = np.random.default_rng(seed)
    spans = np.array_split(np.arange(STEPS), changes + 1)
    best = [int(number % 4) for number, span in enumerate(spans) for _ in span]
    initial = np.array([4.0, 2.0, 1.0, 1.0])
    mixture = SwitchingMixture(initial, SHARE)
    loss = 0.0
    probabilities = draw_probabilities(rng, best)
    for step in probabilities:
        loss -= np.log(mixture.weights @ step)
        mixture.learn(-np.log(step))
    best_loss = -np.log(probabilities[np.arange(STEPS), best]).sum()
    bound = regret_bound(initial, SHARE, best)
    assert loss - best_loss <= bound
    assert bound < 4 + 7 * changes + SHARE * STEPS


def test_predictor_that_becomes_the_best_has_most_of_the_weight_soon() -> None:
    mixture = SwitchingMixture(np.ones(2), SHARE)
    for _ in range(200):
        mixture.learn(-np.log([0.8, 0.2]))
    assert mixture.weights[0] > 0.9
    for _ in range(10):
        mixture.learn(-np.log([0.2, 0.8]))
    assert mixture.weights[1] > 0.9


def test_weights_add_up_to_one_whatever_the_losses() -> None:
    mixture = SwitchingMixture(np.array([1.0, 3.0]), SHARE)
    np.testing.assert_allclose(mixture.weights, [0.25, 0.75])
    mixture.learn(np.array([1e4, 2e4]))
    assert mixture.weights.sum() == pytest.approx(1)
    assert mixture.weights.min() > 0
