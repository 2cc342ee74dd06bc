"""Forecasts of several predictors, mixed by how well each has predicted."""

import numpy as np
import pytest

from recall.learning.switching_mixture import regret_bound
from recall.learning.tag_mixture import _SHARE, TagHistory, TagMixture


def make_history(tags: list[int]) -> TagHistory:
    history, known = TagHistory(), set()
    for tag in tags:
        history.learn(tag, tag not in known)
        known.add(tag)
    return history


def test_probabilities_add_up_to_one() -> None:
    history = make_history([0, 1, 1, 2, 0])
    forecast = TagMixture(use_time=True).mix(
        np.array([0.7, 0.2, 0.1]), np.full((2, 3), 1 / 3), (0.1, 0.1), history
    )
    assert forecast.probabilities.sum() + forecast.new_tag == pytest.approx(1)
    np.testing.assert_allclose(forecast.distributions.sum(axis=1), 1)


def test_sure_and_wrong_predictor_loses_its_weight_to_the_frequencies() -> None:
    """Three of four episodes are of the first tag; the learned predictor names the second."""
    rng = np.random.default_rng(1)
    history, mixture = make_history([0, 0, 0, 1]), TagMixture(use_time=True)
    wrong, votes = np.array([0.02, 0.98]), np.full((2, 2), 0.5)
    losses = []
    for _ in range(30):
        forecast = mixture.mix(wrong, votes, (0.01, 0.01), history)
        tag = int(rng.random() < 0.25)
        losses.append(-np.log(forecast.shares[tag]))
        mixture.learn(forecast, tag)
        history.learn(tag, is_new=False)
    assert mixture.tags.weights[1] < 0.1
    assert np.mean(losses[10:]) < 0.75


def test_chance_of_a_new_tag_follows_the_recent_share() -> None:
    history, mixture = make_history([0, 1]), TagMixture(use_time=True)
    chances = []
    for number in range(90):
        shares = history.frequencies()
        forecast = mixture.mix(shares, np.array([shares, shares]), (0.5, 0.5), history)
        chances.append(forecast.new_tag)
        is_new = 40 <= number < 60
        tag = len(shares) if is_new else 0
        mixture.learn(forecast, None if is_new else 0)
        history.learn(tag, is_new)
    assert chances[39] < 0.1
    assert chances[59] > 0.5
    assert chances[89] < 0.2


def test_chance_of_a_new_tag_is_not_worse_than_by_frequencies_by_more_than_the_bound() -> None:
    """Of many events, none has a new tag: frequencies say so before episodes do."""
    history, mixture = make_history([0]), TagMixture(use_time=True)
    initial = mixture.novelty.weights
    loss = frequency_loss = 0.0
    for number in range(1, 100):
        frequency_chance = 1 / (20 * number)
        forecast = mixture.mix(np.ones(1), np.ones((2, 1)), (0.9, frequency_chance), history)
        loss -= np.log(1 - forecast.new_tag)
        frequency_loss -= np.log(1 - frequency_chance)
        mixture.learn(forecast, 0)
        history.learn(0, is_new=False)
    assert loss <= frequency_loss + regret_bound(initial, _SHARE, [1] * 99)
    assert loss / 99 < 0.04


def test_without_time_recent_frequencies_are_no_predictors() -> None:
    first, second = make_history([0, 1, 1, 0, 0]), make_history([0, 1, 0, 0, 1])
    forecasts = [
        TagMixture(use_time=False).mix(
            np.array([0.5, 0.5]), np.full((2, 2), 0.5), (0.1, 0.1), history
        )
        for history in (first, second)
    ]
    np.testing.assert_array_equal(forecasts[0].shares, forecasts[1].shares)


def test_restored_history_is_the_same() -> None:
    history = make_history([0, 1, 2, 1, 1])
    restored = TagHistory.from_arrays(history.to_arrays())
    for each in (history, restored):
        each.learn(3, is_new=True)
    np.testing.assert_array_equal(restored.recent_frequencies(), history.recent_frequencies())
    np.testing.assert_array_equal(restored.new_tag_shares(), history.new_tag_shares())
    assert restored.episode_count == history.episode_count == 6


def test_calibration_costs_no_more_than_its_bound() -> None:
    """The best tag is right for long, and then never again: what was calibrated misleads."""
    rng = np.random.default_rng(1)
    history, mixture = make_history([0, 0, 1, 1]), TagMixture(use_time=True)
    learned, votes = np.array([0.6, 0.4]), np.full((2, 2), 0.5)
    loss = loss_before = 0.0
    initial = mixture.stages.weights
    for number in range(200):
        forecast = mixture.mix(learned, votes, (0.01, 0.01), history)
        tag = int(number >= 100 or rng.random() < 0.05)
        loss -= np.log(forecast.shares[tag])
        loss_before -= np.log(forecast.stages[0, tag])
        mixture.learn(forecast, tag)
    assert loss <= loss_before + regret_bound(initial, _SHARE, [0] * 200)
