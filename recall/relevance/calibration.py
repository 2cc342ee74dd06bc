"""Fitting the probability that a hit is relevant, and testing it on later events. No I/O.

The model is `recall.similarity.calibration_model`. scikit-learn is imported only when a model is
fitted or tested, because it takes long to load.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import attrgetter

import numpy as np

from archiver.times import Micros
from recall.relevance.rankers import CandidateSet, Floats, Ranker
from recall.similarity.calibration_model import Calibration, answer_features

# The minimum number of cases to fit a model, and of cases with either outcome.
_MIN_CASES = 30
_MIN_CASES_PER_OUTCOME = 5
# The same to fit a model that is only tested: with the test cases, about 30 tags.
_MIN_TESTED_CASES = 15
# The share of the cases, oldest first, that a tested model is fitted to.
_TRAINING_SHARE = 0.7
# Standard deviations below this count as constant features.
_MIN_DEVIATION = 1e-9
_BIN_EDGES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)  # probabilities

# Whether two events, by ID, are of the same kind; None: unknown.
SameKind = Callable[[str, str], bool | None]


@dataclass(frozen=True)
class CalibrationCase:
    """An answer of known outcome.

    `ts`: event time. `features`: see `calibration_model.answer_features`.
    `best_hit_correct`: whether the best hit is of the same kind as the event.
    """

    ts: Micros
    features: tuple[float, ...]
    best_hit_correct: bool


@dataclass(frozen=True)
class ReliabilityBin:
    """The test cases with a predicted probability in [low, high); the last bin includes 1."""

    low: float
    high: float
    cases: int
    mean_predicted: float
    observed_share: float
    """The share of the cases whose best hit is correct."""


@dataclass(frozen=True)
class Reliability:
    """How predicted probabilities held on the newest cases, by a model fitted to the oldest."""

    training_cases: int
    test_cases: int
    brier_score: float
    """The mean squared error of the probabilities."""
    baseline_brier_score: float
    """That of always predicting the share of correct training cases."""
    bins: list[ReliabilityBin]
    """Without empty bins."""


def fit_calibration(
    cases: Sequence[CalibrationCase], min_cases: int = _MIN_CASES
) -> Calibration | None:
    """Fit a model; None if there are too few cases, or too few of either outcome."""
    outcomes = list(map(attrgetter("best_hit_correct"), cases))
    correct = sum(outcomes)
    if len(cases) < min_cases or min(correct, len(cases) - correct) < _MIN_CASES_PER_OUTCOME:
        return None
    from sklearn.linear_model import LogisticRegression

    features = np.array(list(map(attrgetter("features"), cases)))
    center, scale = features.mean(axis=0), features.std(axis=0)
    scale[scale < _MIN_DEVIATION] = 1.0
    model = LogisticRegression().fit((features - center) / scale, outcomes)
    return Calibration(
        center=tuple(center.tolist()),
        scale=tuple(scale.tolist()),
        weights=tuple(model.coef_[0].tolist()),
        offset=float(model.intercept_[0]),
        cases=len(cases),
        until=max(map(attrgetter("ts"), cases)),
    )


def measure_reliability(cases: Sequence[CalibrationCase]) -> Reliability | None:
    """Fit a model to the older cases and test it on the newer ones; None if there are too few."""
    ordered = sorted(cases, key=attrgetter("ts"))
    training_count = int(len(ordered) * _TRAINING_SHARE)
    training_cases, test_cases = ordered[:training_count], ordered[training_count:]
    model = fit_calibration(training_cases, _MIN_TESTED_CASES)
    if model is None or not test_cases:
        return None
    from sklearn.metrics import brier_score_loss

    predicted = np.array([model.probability(case.features) for case in test_cases])
    observed = np.array(list(map(attrgetter("best_hit_correct"), test_cases)))
    training_correct = sum(map(attrgetter("best_hit_correct"), training_cases))
    training_share = training_correct / training_count
    return Reliability(
        training_cases=training_count,
        test_cases=len(test_cases),
        brier_score=float(brier_score_loss(observed, predicted)),
        baseline_brier_score=float(np.mean((observed - training_share) ** 2)),
        bins=_reliability_bins(predicted, observed.astype(np.float64)),
    )


def _reliability_bins(predicted: Floats, observed: Floats) -> list[ReliabilityBin]:
    """`predicted`: probabilities; `observed`: 1 if the best hit is correct, else 0."""
    bins = []
    for low, high in pairwise(_BIN_EDGES):
        inside = (predicted >= low) & ((predicted < high) | (high == 1.0))
        if inside.any():
            reliability_bin = ReliabilityBin(
                low=low,
                high=high,
                cases=int(inside.sum()),
                mean_predicted=float(predicted[inside].mean()),
                observed_share=float(observed[inside].mean()),
            )
            bins.append(reliability_bin)
    return bins


def make_case(
    candidate_set: CandidateSet,
    ranker: Ranker,
    k: int,
    kinds: Mapping[str, str],
    same_kind: SameKind,
) -> CalibrationCase | None:
    """The case of one alert; None if it has no hit, or if the best hit's kind is unknown.

    `kinds`: by event ID, as far as known.
    """
    answer = candidate_set.rank(ranker, k)
    if not answer.hits:
        return None
    best_hit, _ = answer.hits[0]
    correct = same_kind(candidate_set.alert.event_id, best_hit.event_id)
    if correct is None:
        return None
    hit_scores: list[float] = []
    hit_kinds: list[str | None] = []
    for past, score in answer.hits:
        hit_scores.append(score)
        hit_kinds.append(kinds.get(past.event_id))
    features = answer_features(hit_scores, hit_kinds, candidate_set.counts.event_count)
    return CalibrationCase(candidate_set.alert.ts, features, correct)
