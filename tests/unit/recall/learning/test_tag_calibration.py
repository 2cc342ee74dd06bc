"""Calibration of probabilities of tags, and of none of these."""

import numpy as np
import pytest

from recall.learning.tag_calibration import PastPrediction, TagCalibration


def learn(calibration: TagCalibration, accuracy: float, stated: float, count: int) -> None:
    """Predictions of one of two tags with probability `stated`, which are right in `accuracy`."""
    rng = np.random.default_rng(1)
    log_probabilities = np.log([stated, 1 - stated])
    for _ in range(count):
        features = calibration.features(log_probabilities, 0.0, 0.01)
        tag = 0 if rng.random() < accuracy else 1
        calibration.learn(PastPrediction(log_probabilities, features, tag))


@pytest.mark.parametrize("accuracy", [0.7, 0.9])
def test_probability_approaches_the_observed_share(accuracy: float) -> None:
    calibration = TagCalibration()
    learn(calibration, accuracy, stated=0.97, count=800)
    shares = calibration.shares(np.log([0.97, 0.03]))
    assert shares[0] == pytest.approx(accuracy, abs=0.08)
    assert shares.sum() == pytest.approx(1)
    assert calibration.new_tag_chance(calibration.features(np.log([0.97, 0.03]), 0.0, 0.01)) < 0.05


def test_new_tags_raise_the_probability_of_none_of_these() -> None:
    calibration = TagCalibration()
    log_probabilities = np.log([0.5, 0.5])
    rng = np.random.default_rng(1)
    for _ in range(200):
        features = calibration.features(log_probabilities, 0.5, 0.4)
        is_new = bool(rng.random() < 0.4)
        tag = None if is_new else int(rng.integers(2))
        calibration.learn(PastPrediction(log_probabilities, features, tag))
    features = calibration.features(log_probabilities, 0.5, 0.4)
    assert calibration.new_tag_chance(features) == pytest.approx(0.4, abs=0.12)


def test_before_anything_is_learned_a_new_tag_has_the_recent_share() -> None:
    calibration = TagCalibration()
    features = calibration.features(np.log([0.5, 0.5]), 0.0, 0.3)
    assert calibration.new_tag_chance(features) == pytest.approx(0.3)
