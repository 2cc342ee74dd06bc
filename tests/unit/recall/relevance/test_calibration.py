"""Learning how probable a match is."""

import subprocess
import sys
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from moirae.feedback.judgements import JudgedCorpus
from moirae.feedback.training import build_training_cases
from recall.relevance.calibration import CalibrationCase, fit_calibration, measure_reliability
from recall.relevance.rankers import AlertContext
from recall.similarity.calibration_model import MIN_EPISODES, answer_features
from tests.unit.recall.relevance.incidents import make_incidents

GOOD_ANSWER = answer_features([0.9, 0.1], ["x", "x"], 100)
BAD_ANSWER = answer_features([0.2, 0.1], ["x", "y"], 100)
HOUR = 3_600_000_000  # microseconds


def make_case(number: int, features: tuple[float, ...], correct: bool) -> CalibrationCase:
    return CalibrationCase(number, number + 1, features, correct, not correct)


def test_probabilities_hold() -> None:
    reliability = measure_reliability(build_training_cases(make_incidents(500)))
    assert reliability is not None and reliability.match is not None
    match = reliability.match
    assert match.brier_score < match.baseline_brier_score - 0.01
    assert match.calibration_error - match.perfect_calibration_error < 0.05


def test_too_few_cases_are_not_tested() -> None:
    assert measure_reliability([make_case(n, GOOD_ANSWER, True) for n in range(10)]) is None
    assert fit_calibration([]) is None


def test_few_episodes_are_withheld_and_count_as_the_past_share() -> None:
    cases = [make_case(n, GOOD_ANSWER, n % 2 == 0) for n in range(MIN_EPISODES)]
    reliability = measure_reliability(cases)
    assert reliability is not None and reliability.match is not None
    assert reliability.match.withheld_share == 1
    assert reliability.match.brier_score == reliability.match.baseline_brier_score
    calibration = fit_calibration(cases[:-1])
    assert calibration is not None
    assert calibration.estimate([0.9], ["x"], 100).withheld


def test_one_outcome_alone_gives_a_probability_near_its_share() -> None:
    calibration = fit_calibration([make_case(n, GOOD_ANSWER, True) for n in range(60)])
    assert calibration is not None
    estimate = calibration.estimate([0.9, 0.1], ["x", "x"], 100)
    assert estimate.probability is not None and estimate.probability > 0.95


def test_model_separates_good_from_bad_answers() -> None:
    cases = []
    for number in range(200):
        correct = number % 3 > 0
        cases.append(make_case(number, GOOD_ANSWER if correct else BAD_ANSWER, correct))
    calibration = fit_calibration(cases)
    assert calibration is not None
    assert calibration.match.probability(GOOD_ANSWER) > 0.9
    assert calibration.match.probability(BAD_ANSWER) < 0.1
    assert calibration.nothing.probability(BAD_ANSWER) > 0.9
    assert (calibration.episodes, calibration.until) == (200, 199)


def test_probability_follows_a_shift() -> None:
    """Scores that promised a match no longer do: recent episodes outweigh the regression."""
    cases = [make_case(n, GOOD_ANSWER, n < 100) for n in range(130)]
    calibration = fit_calibration(cases)
    assert calibration is not None
    assert calibration.match.probability(GOOD_ANSWER) < 0.3


def test_sure_scores_that_mean_nothing_are_not_believed() -> None:
    """A random outcome is predicted by its share, whatever the features."""
    random = np.random.default_rng(0)
    cases = []
    for number in range(150):
        features = (*random.random(4).tolist(), 2.0)
        cases.append(make_case(number, features, bool(random.random() < 0.3)))
    reliability = measure_reliability(cases)
    assert reliability is not None and reliability.match is not None
    match = reliability.match
    assert match.brier_score < match.baseline_brier_score + 0.02
    assert match.calibration_error - match.perfect_calibration_error < 0.05


def make_bursts(size: int) -> JudgedCorpus:
    alerts, kinds = [], {}
    for episode in range(40):
        kind = f"k{episode % 3}"
        for number in range(size):
            event_id = f"{episode}-{number}"
            terms = {f"msg={kind}": 1, f"noise={episode * 7 % 5}": 1}
            ts = episode * 10 * HOUR + number
            alerts.append(AlertContext(event_id, "t", ts, terms))
            kinds[event_id] = kind
    return JudgedCorpus("bursts", alerts, kinds, gap=timedelta(hours=1))


def test_copies_of_an_episodes_events_are_one_case() -> None:
    single, bursts = build_training_cases(make_bursts(1)), build_training_cases(make_bursts(50))
    assert len(single) == len(bursts) == 39
    before, after = fit_calibration(single), fit_calibration(bursts)
    assert before is not None and after is not None
    assert after.episodes == before.episodes
    assert len(after.match.tested) == len(before.match.tested)


def test_outcome_is_used_only_once_it_is_known() -> None:
    """While no outcome is known, each case is predicted by what holds before anything is known."""
    cases = [replace(make_case(n, GOOD_ANSWER, True), known_at=10_000) for n in range(100)]
    reliability = measure_reliability(cases)
    assert reliability is not None and reliability.match is not None
    assert reliability.match.withheld_share == 1


def test_new_kind_is_nothing_comparable() -> None:
    corpus = make_bursts(1)
    alerts = [*corpus.alerts, AlertContext("new", "t", 1_000 * HOUR, {"msg=k1": 1})]
    cases = build_training_cases(
        replace(corpus, alerts=alerts, kinds={**corpus.kinds, "new": "never seen"})
    )
    assert cases[-1].is_nothing_comparable and cases[-1].best_hit_correct is False
    # The first events of the other two kinds, and of none else.
    assert sum(bool(case.is_nothing_comparable) for case in cases) == 3


@pytest.mark.processes
def test_importing_the_module_does_not_load_scipy() -> None:
    code = "import sys, moirae.feedback; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
