"""Features of an answer, and what is probable of it."""

import pytest

from recall.similarity.calibration_model import (
    MIN_EPISODES,
    Calibration,
    OutcomeModel,
    answer_features,
)


def test_features_of_an_answer() -> None:
    features = answer_features([0.9, 0.5, 0.3], ["x", "x", None], event_count=1000)
    assert features == (0.9, pytest.approx(0.4), pytest.approx(0.4), 0.75, 3.0)


def test_single_hit_leads_by_its_score() -> None:
    assert answer_features([0.9], ["x"], 10) == (0.9, 0.9, 0.0, 0.5, 1.0)


def test_answer_without_hits_has_features() -> None:
    assert answer_features([], [], 10) == (0.0, 0.0, 0.0, 0.5, 1.0)


def test_agreement_is_neutral_if_the_kind_of_the_best_hit_is_unknown() -> None:
    assert answer_features([0.9, 0.8], [None, "x"], 10)[3] == 0.5


def make_outcome(weight: float, mixture: tuple[float, float] = (1.0, 0.0)) -> OutcomeModel:
    return OutcomeModel(
        center=(0.5, 0, 0, 0, 2),
        scale=(0.25, 1, 1, 1, 1),
        weights=(weight, 0, 0, 0, 0),
        offset=0.0,
        shares=(0.3,),
        mixture=mixture,
        tested=(0.5,) * 30,
    )


def make_calibration(episodes: int = MIN_EPISODES) -> Calibration:
    return Calibration(make_outcome(2.0), make_outcome(-2.0), episodes, 7)


def test_regression_is_a_logistic_function_of_standardised_features() -> None:
    model = make_outcome(2.0)
    assert model.probability(answer_features([0.5], [None], 100)) == 0.5
    assert model.probability(answer_features([0.75], [None], 100)) == pytest.approx(
        0.8808, abs=1e-4
    )


def test_regression_is_mixed_with_past_shares() -> None:
    model = make_outcome(2.0, mixture=(0.5, 0.5))
    assert model.probability(answer_features([0.5], [None], 100)) == pytest.approx(0.4)


def test_extreme_features_do_not_overflow() -> None:
    features = answer_features([1e9], [None], 100)
    assert make_outcome(1e9).probability(features) == 1
    assert make_outcome(-1e9).probability(features) == pytest.approx(0)


def test_estimate_has_intervals() -> None:
    estimate = make_calibration().estimate([0.75], [None], 100)
    assert estimate.probability is not None and estimate.interval is not None
    assert estimate.interval[0] < estimate.probability < estimate.interval[1]
    assert estimate.nothing_comparable == pytest.approx(1 - estimate.probability)


def test_few_episodes_withhold_everything() -> None:
    estimate = make_calibration(MIN_EPISODES - 1).estimate([0.75], [None], 100)
    assert estimate.withheld and estimate.episodes == MIN_EPISODES - 1
    assert estimate.probability is estimate.nothing_comparable is None


def test_answer_without_hits_says_how_probable_it_is_that_nothing_is_comparable() -> None:
    estimate = make_calibration().estimate([], [], None)
    assert estimate.probability is None and estimate.interval is None
    assert estimate.nothing_comparable is not None and estimate.nothing_comparable > 0.9


def test_json_restores_the_model() -> None:
    model = make_calibration()
    assert Calibration.from_json(model.to_json()) == model
