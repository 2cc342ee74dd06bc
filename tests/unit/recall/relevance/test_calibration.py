"""Fitting the probability that a hit is relevant."""

import subprocess
import sys

import pytest

from moirae.feedback.training import build_training_cases
from recall.relevance.calibration import CalibrationCase, fit_calibration, measure_reliability
from recall.similarity.calibration_model import Calibration, answer_features
from tests.unit.recall.relevance.incidents import make_incidents

GOOD_ANSWER = answer_features([0.9, 0.1], ["x", "x"], 100)
BAD_ANSWER = answer_features([0.2, 0.1], ["x", "y"], 100)


def test_probabilities_hold_on_later_events() -> None:
    reliability = measure_reliability(build_training_cases(make_incidents(500)))
    assert reliability is not None
    assert reliability.training_cases + reliability.test_cases > 1900
    assert reliability.brier_score < reliability.baseline_brier_score - 0.01
    for reliability_bin in reliability.bins:
        if reliability_bin.cases >= 100:
            observed = pytest.approx(reliability_bin.observed_share, abs=0.12)
            assert reliability_bin.mean_predicted == observed


def test_too_few_cases_or_one_outcome_fit_no_model() -> None:
    correct = [CalibrationCase(number, GOOD_ANSWER, True) for number in range(100)]
    assert fit_calibration(correct) is None
    assert fit_calibration(correct[:20]) is None
    assert measure_reliability(correct) is None


def test_model_separates_good_from_bad_answers() -> None:
    cases = [CalibrationCase(number, GOOD_ANSWER, True) for number in range(100)]
    cases += [CalibrationCase(number, BAD_ANSWER, False) for number in range(100, 130)]
    model = fit_calibration(cases)
    assert model is not None
    assert model.probability(GOOD_ANSWER) > 0.9
    assert model.probability(BAD_ANSWER) < 0.1
    assert (model.cases, model.until) == (130, 129)
    assert Calibration.from_json(model.to_json()) == model


@pytest.mark.processes
def test_importing_the_module_does_not_load_scikit_learn() -> None:
    code = "import sys, moirae.feedback; sys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
