"""Learning what the scores of similarity are worth, and how well the probabilities hold on later events."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import brier_score_loss

from recall.similarity.comparable import Calibration, features
from recall.similarity.corpus import Floats
from recall.similarity.run import Question, Ranker

# Fewer cases than this, or of either outcome, teach nothing.
_CASES, _OUTCOMES = 30, 5
# The share of cases, oldest first, that is learned from when the probabilities are put to the test.
_LEARNED = 0.7
_BINS = (0.0, 0.1, 0.25, 0.5, 0.75, 0.9, 1.0)


@dataclass(frozen=True)
class Case:
    """An answer whose worth is known: when (microseconds), what it looked like, whether the best hit was right."""

    ts: int
    features: tuple[float, ...]
    same: bool


def learn(cases: Sequence[Case]) -> Calibration | None:
    """From answers whose worth is known; None where there are too few, or all of one outcome."""
    right = sum(case.same for case in cases)
    if len(cases) < _CASES or min(right, len(cases) - right) < _OUTCOMES:
        return None
    looks = np.array([case.features for case in cases])
    center, scale = looks.mean(axis=0), looks.std(axis=0)
    scale[scale < 1e-9] = 1.0
    model = LogisticRegression().fit((looks - center) / scale, [case.same for case in cases])
    return Calibration(
        tuple(center.tolist()),
        tuple(scale.tolist()),
        tuple(model.coef_[0].tolist()),
        float(model.intercept_[0]),
        len(cases),
        max(case.ts for case in cases),
    )


@dataclass(frozen=True)
class Bin:
    """Answers with a probability in [low, high): how many, the mean that was said, the share that was right."""

    low: float
    high: float
    cases: int
    said: float
    right: float


@dataclass(frozen=True)
class Reliability:
    """How the probabilities held on the `tested` newest cases, having learned from the `learned` oldest.

    `brier`: their mean squared error; `plain`: that of always saying the share that was right before.
    """

    learned: int
    tested: int
    brier: float
    plain: float
    bins: list[Bin]


def reliability(cases: Sequence[Case]) -> Reliability | None:
    """Learn from the older cases, test on the newer; None where there is too little of either."""
    ordered = sorted(cases, key=lambda case: case.ts)
    older, newer = ordered[: int(len(ordered) * _LEARNED)], ordered[int(len(ordered) * _LEARNED) :]
    learned = learn(older)
    if learned is None or not newer:
        return None
    said = np.array([learned.probability(case.features) for case in newer])
    right = np.array([case.same for case in newer])
    before = sum(case.same for case in older) / len(older)
    return Reliability(
        len(older),
        len(newer),
        float(brier_score_loss(right, said)),
        float(np.mean((right - before) ** 2)),
        list(_bins(said, right.astype(np.float64))),
    )


def _bins(said: Floats, right: Floats) -> Iterator[Bin]:
    for low, high in pairwise(_BINS):
        inside = (said >= low) & ((said < high) | (high == 1.0))
        if inside.any():
            yield Bin(low, high, int(inside.sum()), float(said[inside].mean()), float(right[inside].mean()))


# Whether two events, by id, are of one kind; None: nobody knows.
Same = Callable[[str, str], bool | None]


def case_of(question: Question, ranker: Ranker, k: int, kinds: Mapping[str, str], same: Same) -> Case | None:
    """The case that a question makes; None where there is no hit, or nobody knows whether the best one is right."""
    answer = question.answer(ranker, k)
    if not answer.hits:
        return None
    right = same(question.alert.event_id, answer.hits[0][0].event_id)
    if right is None:
        return None
    known = [kinds.get(past.event_id) for past, _ in answer.hits]
    looks = features([score for _, score in answer.hits], known, question.counts.events)
    return Case(question.alert.ts, looks, right)
