"""Features of an answer, and the probability that its best hit is right."""

import pytest

from recall.similarity.calibration_model import Calibration, answer_features


def test_features_of_an_answer() -> None:
    features = answer_features([0.9, 0.5, 0.3], ["x", "x", None], event_count=1000)
    assert features == (0.9, pytest.approx(0.4), pytest.approx(0.4), 0.75, 3.0)


def test_single_hit_leads_by_its_score() -> None:
    assert answer_features([0.9], ["x"], 10) == (0.9, 0.9, 0.0, 0.5, 1.0)


def test_agreement_is_neutral_if_the_kind_of_the_best_hit_is_unknown() -> None:
    assert answer_features([0.9, 0.8], [None, "x"], 10)[3] == 0.5


def _calibration(weight: float) -> Calibration:
    return Calibration((0.5,), (0.25,), (weight,), 0.0, 100, 7)


def test_probability_is_a_logistic_function_of_standardised_features() -> None:
    assert _calibration(2.0).probability([0.5]) == 0.5
    assert _calibration(2.0).probability([0.75]) == pytest.approx(0.880797, abs=1e-6)


def test_extreme_features_do_not_overflow() -> None:
    assert _calibration(1e9).probability([1e9]) == 1
    assert _calibration(1e9).probability([-1e9]) == pytest.approx(0)


def test_json_restores_the_model_and_keeps_its_keys() -> None:
    model = _calibration(2.0)
    stored = model.to_json()
    assert stored.keys() == {"center", "scale", "weights", "offset", "cases", "until"}
    assert Calibration.from_json({**stored, "center": [0.5]}) == model
