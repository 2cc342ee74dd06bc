"""The probability of the most probable tag is that with which it is right."""

import numpy as np
import pytest

from recall.learning.best_tag import BestTagCalibration


def learn(
    calibration: BestTagCalibration, accuracy: float, count: int, weight: float = 1.0
) -> None:
    """Predictions of one of three tags with .6, which are right in `accuracy`."""
    rng = np.random.default_rng(1)
    for _ in range(count):
        tag = 0 if rng.random() < accuracy else 1
        calibration.learn(np.array([0.6, 0.3, 0.1]), tag, weight)


@pytest.mark.parametrize("accuracy", [0.4, 0.6, 0.9])
def test_probability_approaches_the_observed_share(accuracy: float) -> None:
    calibration = BestTagCalibration()
    learn(calibration, accuracy, 800)
    shares = calibration.correct(np.array([0.6, 0.3, 0.1]))
    assert shares[0] == pytest.approx(accuracy, abs=0.06)
    assert shares.sum() == pytest.approx(1)
    assert shares[1] == pytest.approx(3 * shares[2])


def test_newer_predictions_count_more() -> None:
    calibration = BestTagCalibration()
    learn(calibration, 0.2, 100)
    learn(calibration, 0.9, 100)
    assert calibration.correct(np.array([0.6, 0.3, 0.1]))[0] > 0.65


def test_probability_follows_a_model_that_still_learns() -> None:
    """Of all predictions fewer are right than of the newest ones."""
    rng = np.random.default_rng(1)
    shares = np.array([0.6, 0.3, 0.1])
    shown = []
    for _ in range(40):
        calibration = BestTagCalibration()
        for number in range(1, 61):
            odds = 1.5 * (number / 60) ** 0.5
            is_right = rng.random() < odds / (1 + odds)
            calibration.learn(shares, 0 if is_right else 1, 1.0)
        shown.append(calibration.correct(shares)[0])
    assert np.mean(shown) == pytest.approx(0.6, abs=0.03)


def test_exceptions_count_little() -> None:
    calibration = BestTagCalibration()
    learn(calibration, 1.0, 100)
    shares = calibration.correct(np.array([0.6, 0.3, 0.1]))
    with_exceptions = BestTagCalibration()
    for _ in range(100):
        learn(with_exceptions, 1.0, 1)
        learn(with_exceptions, 0.0, 1, weight=1e-3)
    assert with_exceptions.correct(np.array([0.6, 0.3, 0.1])) == pytest.approx(shares, abs=0.02)


def test_before_anything_is_learned_probabilities_stay() -> None:
    shares = np.array([0.6, 0.3, 0.1])
    assert BestTagCalibration().correct(shares) == pytest.approx(shares)
    assert BestTagCalibration().correct(np.ones(1)) == pytest.approx(np.ones(1))
