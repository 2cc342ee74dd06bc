"""Calibrates the probability of the most probable tag, after all predictors are mixed. No I/O.

What minimises the log loss of all tags may be too sure or not sure enough about the best one: a few
wrong tags cost much of a sharp distribution. So a logistic regression on its log odds (Platt,
Advances in Large Margin Classifiers, 1999) says how often it is right. It is fitted to predictions
that were made before the tag was known. Predictors get better with each tag, so newer predictions
count more.
"""

import math
from collections import deque
from typing import NamedTuple

import numpy as np

from recall.learning.weight_fit import fit_logistic, sigmoid
from recall.similarity.measures import Floats

_MAX_CASES = 1000  # the newest are fitted to
_FIRST_FIT = 10  # cases
# Fitted again when this share of cases has been added.
_REFIT_GROWTH = 0.05
_MIN_REFIT_INTERVAL = 3  # cases
_MIN_PROBABILITY = 1e-6
# The means of the weights of 1 and the log odds: probabilities stay as they are. And of the trend,
# the logarithm of a case's number divided by that of the newest one: with 5 times as many cases, the
# odds that the best tag is right are about twice as high.
_PRIOR_WEIGHTS = np.array([0.0, 1.0, 0.5])
# Their standard deviations. How often the best tag is right changes by more than how much surer one
# probability is than another, and few of the newer cases say so: with 1, a third of the lag remains.
_PRIOR_DEVIATIONS = np.array([1.5, 1.0, 0.5])
# The n-th of N cases counts (n/N) to this power.
_AGE_POWER = 2.0


class _Case(NamedTuple):
    """A past prediction. `log_odds`: of the most probable tag. `weight`: how much it counts."""

    log_odds: float
    is_right: bool
    weight: float


class BestTagCalibration:
    """The weights of the regression, and the newest cases."""

    def __init__(self) -> None:
        self.weights = _PRIOR_WEIGHTS[:2]
        """Of 1 and the log odds of the best tag, for the log odds that it is right now."""
        self._fitted_weights = _PRIOR_WEIGHTS
        self._cases: deque[_Case] = deque(maxlen=_MAX_CASES)
        self._case_count = 0
        self._next_fit = _FIRST_FIT

    def correct(self, shares: Floats) -> Floats:
        """By tag, its probability. `shares`: the same before; the order of tags may change."""
        if len(shares) < 2:
            return shares
        best = int(np.argmax(shares))
        probability = _clip(float(shares[best]))
        intercept, slope = self.weights
        corrected = _clip(float(sigmoid(intercept + slope * _log_odds(probability))))
        calibrated: Floats = shares * ((1 - corrected) / (1 - probability))
        calibrated[best] = corrected
        calibrated /= calibrated.sum()
        return calibrated

    def learn(self, shares: Floats, tag_id: int, weight: float) -> None:
        """The tag of an event is known. `shares`: what was predicted for it, before correction."""
        if len(shares) < 2:
            return
        best = int(np.argmax(shares))
        self._cases.append(_Case(_log_odds(_clip(float(shares[best]))), best == tag_id, weight))
        self._case_count += 1
        if self._case_count >= self._next_fit:
            growth = int(self._case_count * _REFIT_GROWTH)
            self._next_fit = self._case_count + max(growth, _MIN_REFIT_INTERVAL)
            self._fit()

    def _fit(self) -> None:
        count = len(self._cases)
        log_odds, is_right, weights = np.array(self._cases).T
        weights *= (np.arange(1, count + 1) / count) ** _AGE_POWER
        numbers = np.arange(self._case_count - count, self._case_count) + 1
        features = np.column_stack([np.ones(count), log_odds, np.log(numbers / self._case_count)])
        self._fitted_weights = fit_logistic(
            features,
            is_right,
            _PRIOR_WEIGHTS,
            weights,
            start=self._fitted_weights,
            prior_deviations=_PRIOR_DEVIATIONS,
        )
        self.weights = self._fitted_weights[:2]


def _clip(probability: float) -> float:
    return min(max(probability, _MIN_PROBABILITY), 1 - _MIN_PROBABILITY)


def _log_odds(probability: float) -> float:
    return math.log(probability / (1 - probability))
