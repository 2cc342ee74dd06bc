"""Learning what the scores of similarity are worth, and how well the probabilities hold on later events."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss

from recall.relevance.ready_contexts import CandidateSet, Ranker
from recall.similarity import Calibration, Floats, answer_features

# Fewer cases than this, or of either outcome, teach nothing.
_MIN_CASES, _MIN_OUTCOMES = 30, 5
# The share of cases, oldest first, that is learned from when the probabilities are put to the test.
_TRAINING_SHARE = 0.7
_BIN_EDGES = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


@dataclass(frozen=True)
class CalibrationCase:
    """An answer whose worth is known: when (microseconds), what it looked like, whether the best hit was right."""

    ts: int
    features: tuple[float, ...]
    best_hit_correct: bool


def fit_calibration(cases: Sequence[CalibrationCase]) -> Calibration | None:
    """From answers whose worth is known; None where there are too few, or all of one outcome."""
    right = sum(case.best_hit_correct for case in cases)
    if len(cases) < _MIN_CASES or min(right, len(cases) - right) < _MIN_OUTCOMES:
        return None
    looks = np.array([case.features for case in cases])
    center, scale = looks.mean(axis=0), looks.std(axis=0)
    scale[scale < 1e-9] = 1.0
    model = LogisticRegression().fit(
        (looks - center) / scale, [case.best_hit_correct for case in cases]
    )
    return Calibration(
        tuple(center.tolist()),
        tuple(scale.tolist()),
        tuple(model.coef_[0].tolist()),
        float(model.intercept_[0]),
        len(cases),
        max(case.ts for case in cases),
    )


@dataclass(frozen=True)
class ReliabilityBin:
    """Answers with a probability in [low, high): how many, the mean that was said, the share that was right."""

    low: float
    high: float
    cases: int
    mean_predicted: float
    observed_share: float


@dataclass(frozen=True)
class Reliability:
    """How the probabilities held on the `tested` newest cases, having learned from the `learned` oldest.

    `brier`: their mean squared error; `plain`: that of always saying the share that was right before.
    """

    training_cases: int
    test_cases: int
    brier_score: float
    baseline_brier_score: float
    bins: list[ReliabilityBin]


def measure_reliability(cases: Sequence[CalibrationCase]) -> Reliability | None:
    """Learn from the older cases, test on the newer; None where there is too little of either."""
    ordered = sorted(cases, key=lambda case: case.ts)
    older, newer = (
        ordered[: int(len(ordered) * _TRAINING_SHARE)],
        ordered[int(len(ordered) * _TRAINING_SHARE) :],
    )
    learned = fit_calibration(older)
    if learned is None or not newer:
        return None
    said = np.array([learned.probability(case.features) for case in newer])
    right = np.array([case.best_hit_correct for case in newer])
    before = sum(case.best_hit_correct for case in older) / len(older)
    return Reliability(
        len(older),
        len(newer),
        float(brier_score_loss(right, said)),
        float(np.mean((right - before) ** 2)),
        list(_reliability_bins(said, right.astype(np.float64))),
    )


def _reliability_bins(said: Floats, right: Floats) -> Iterator[ReliabilityBin]:
    for low, high in pairwise(_BIN_EDGES):
        inside = (said >= low) & ((said < high) | (high == 1.0))
        if inside.any():
            yield ReliabilityBin(
                low,
                high,
                int(inside.sum()),
                float(said[inside].mean()),
                float(right[inside].mean()),
            )


# Whether two events, by id, are of one kind; None: nobody knows.
SameKind = Callable[[str, str], bool | None]


def make_case(
    candidate_set: CandidateSet,
    ranker: Ranker,
    k: int,
    kinds: Mapping[str, str],
    same_kind: SameKind,
) -> CalibrationCase | None:
    """The case that a question makes; None where there is no hit, or nobody knows whether the best one is right."""
    answer = candidate_set.rank(ranker, k)
    if not answer.hits:
        return None
    right = same_kind(candidate_set.alert.event_id, answer.hits[0][0].event_id)
    if right is None:
        return None
    known = [kinds.get(past.event_id) for past, _ in answer.hits]
    looks = answer_features(
        [score for _, score in answer.hits], known, candidate_set.counts.event_count
    )
    return CalibrationCase(candidate_set.alert.ts, looks, right)
