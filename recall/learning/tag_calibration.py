"""Calibrated probabilities of tags, with that of a tag that was never seen. No I/O.

All is fitted to predictions that were made before the tag was known: the temperature by which
logarithms of probabilities are divided (Guo et al., ICML 2017), the share of tags that say nothing
(without it, a few wrong tags would make all probabilities small), a logistic regression of whether
the best tag was right on its log odds (Platt, Advances in Large Margin Classifiers, 1999), and one of
whether the tag was new.
"""

import math
from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from recall.learning.weight_fit import fit_logistic, sigmoid
from recall.similarity.measures import Floats

_MAX_PREDICTIONS = 1000  # the newest are fitted to
_MAX_TEMPERATURE_PREDICTIONS = 500
_FIRST_FIT = 10  # predictions
# Fitted again when this share of predictions has been added: while there are few, they get better
# quickly, and an old calibration says too little.
_REFIT_GROWTH = 0.05
_MIN_REFIT_INTERVAL = 3  # predictions
_MAX_REFIT_INTERVAL = 500
_TEMPERATURES = np.exp(np.linspace(np.log(0.5), np.log(4.0), 19))
# The prior of log(temperature): mean 0, this standard deviation.
_TEMPERATURE_DEVIATION = 0.3
# The share of tags that say nothing: a wrong tag may be any.
_NOISE_SHARES = np.array([0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3])
# The mean of its exponential prior.
_MEAN_NOISE = 0.05
_MIN_SHARE = 0.01
_MIN_PROBABILITY = 1e-6
# The means of the weights of the regressions: probabilities stay as they are, and that of a new tag
# is the recent share of new tags.
_PRIOR_BEST_WEIGHTS = np.array([0.0, 1.0])
_PRIOR_NOVELTY_WEIGHTS = np.array([0.0, 1.0, 0.0, 0.0])


@dataclass(frozen=True)
class PastPrediction:
    """A prediction that was made before the tag was known.

    `tag`: its number; None: it was not among the tags. `features`: see `TagCalibration.features`.
    """

    log_probabilities: Floats
    features: Floats
    tag: int | None


@dataclass(frozen=True)
class _CalibratedOutcome:
    """What a prediction says at each temperature and share of noise, compared with the tag.

    By both: `losses`: log loss, `best_log_odds`: of the most probable tag. `is_right`: whether that
    tag came. None if the tag was new: `features` alone count. `weight`: how much it counts.
    """

    features: Floats
    losses: Floats | None = None
    best_log_odds: Floats | None = None
    is_right: bool = False
    weight: float = 1.0


class TagCalibration:
    """The temperature, the regressions, and the newest predictions that they are fitted to."""

    def __init__(self, refits: bool = True) -> None:
        """`refits`: whether `learn` fits from time to time."""
        self._refits = refits
        self.temperature = 1.0
        self.noise = 0.0
        """The share of tags that say nothing."""
        self.best_weights = _PRIOR_BEST_WEIGHTS
        """Of 1 and the log odds of the best tag, for the log odds that it is right."""
        self.novelty_weights = _PRIOR_NOVELTY_WEIGHTS
        """Of `features`, for the log odds that the tag is new."""
        self._outcomes: deque[_CalibratedOutcome] = deque(maxlen=_MAX_PREDICTIONS)
        self._prediction_count = 0
        self._next_fit = _FIRST_FIT

    def features(
        self, log_probabilities: Floats, unknown_share: float, new_tag_share: float
    ) -> Floats:
        """The features of the regression for new tags.

        `unknown_share`: of the context's terms, those that no learned event has. `new_tag_share`:
        of recent episodes, those whose tag was new.
        """
        share = min(max(new_tag_share, _MIN_SHARE), 1 - _MIN_SHARE)
        best = _clip(math.exp(log_probabilities.max()))
        return np.array([1.0, _log_odds(share), math.log(1 - best), unknown_share])

    def shares(self, log_probabilities: Floats) -> Floats:
        """By tag, its probability if the tag is not new."""
        shares = self._scale(log_probabilities)
        if len(shares) > 1:
            best = int(np.argmax(shares))
            corrected = self._correct(float(shares[best]))
            shares *= (1 - corrected) / (1 - _clip(float(shares[best])))
            shares[best] = corrected
            shares /= shares.sum()
        return shares

    def best_probability(self, log_probabilities: Floats) -> float:
        """That of the most probable tag, if the tag is not new."""
        return self._correct(float(self._scale(log_probabilities).max()))

    def _correct(self, best_share: float) -> float:
        intercept, slope = self.best_weights
        return _clip(float(sigmoid(intercept + slope * _log_odds(_clip(best_share)))))

    def new_tag_chance(self, features: Floats) -> float:
        """The probability that the tag was never seen. `features`: see `features`."""
        return float(sigmoid(float(features @ self.novelty_weights)))

    def _scale(self, log_probabilities: Floats) -> Floats:
        scaled = log_probabilities / self.temperature
        exponentials = np.exp(scaled - scaled.max())
        shares: Floats = exponentials / exponentials.sum()
        noisy: Floats = (1 - self.noise) * shares + self.noise / len(shares)
        return noisy

    def learn(self, prediction: PastPrediction, weight: float = 1.0) -> None:
        """Add the prediction for an event whose tag became known. `weight`: how much it counts."""
        self._outcomes.append(replace(_compare(prediction), weight=weight))
        self._prediction_count += 1
        if self._refits and self._prediction_count >= self._next_fit:
            growth = max(int(self._prediction_count * _REFIT_GROWTH), _MIN_REFIT_INTERVAL)
            self._next_fit = self._prediction_count + min(growth, _MAX_REFIT_INTERVAL)
            self.fit()

    def fit(self) -> None:
        """Fit to the newest predictions; nothing happens without one."""
        if not self._outcomes:
            return
        temperature, noise = self._fit_scale()
        self.temperature = float(_TEMPERATURES[temperature])
        self.noise = float(_NOISE_SHARES[noise])
        self._fit_best_weights(temperature, noise)
        self._fit_novelty_weights()

    def _fit_scale(self) -> tuple[int, int]:
        """The positions of the best temperature and share of noise."""
        losses = (np.log(_TEMPERATURES[:, None]) / _TEMPERATURE_DEVIATION) ** 2 / 2
        losses = losses + _NOISE_SHARES / _MEAN_NOISE
        for outcome in list(self._outcomes)[-_MAX_TEMPERATURE_PREDICTIONS:]:
            if outcome.losses is not None:
                losses += outcome.weight * outcome.losses
        temperature, noise = np.unravel_index(np.argmin(losses), losses.shape)
        return int(temperature), int(noise)

    def _fit_best_weights(self, temperature: int, noise: int) -> None:
        features, labels, weights = [], [], []
        for outcome in self._outcomes:
            if outcome.best_log_odds is not None:
                features.append(np.array([1.0, outcome.best_log_odds[temperature, noise]]))
                labels.append(outcome.is_right)
                weights.append(outcome.weight)
        if features:
            self.best_weights = fit_logistic(features, labels, _PRIOR_BEST_WEIGHTS, weights)

    def _fit_novelty_weights(self) -> None:
        features = [outcome.features for outcome in self._outcomes]
        labels = [outcome.losses is None for outcome in self._outcomes]
        weights = [outcome.weight for outcome in self._outcomes]
        self.novelty_weights = fit_logistic(features, labels, _PRIOR_NOVELTY_WEIGHTS, weights)


def _compare(prediction: PastPrediction) -> _CalibratedOutcome:
    """Computed once: the fits, of which there are many, only add up."""
    if prediction.tag is None:
        return _CalibratedOutcome(prediction.features)
    log_probabilities = prediction.log_probabilities
    best = int(np.argmax(log_probabilities))
    scaled = (log_probabilities - log_probabilities[best]) / _TEMPERATURES[:, None]
    totals = np.exp(scaled).sum(axis=1)
    right = _add_noise(np.exp(scaled[:, prediction.tag]) / totals, len(log_probabilities))
    shares = _add_noise(1 / totals, len(log_probabilities))
    shares = np.clip(shares, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
    log_odds = np.log(shares / (1 - shares))
    losses = -np.log(np.maximum(right, _MIN_PROBABILITY))
    return _CalibratedOutcome(prediction.features, losses, log_odds, best == prediction.tag)


def _add_noise(probabilities: Floats, tag_count: int) -> Floats:
    """By temperature and share of noise. `probabilities`: of one tag, by temperature."""
    noisy: Floats = np.outer(probabilities, 1 - _NOISE_SHARES) + _NOISE_SHARES / tag_count
    return noisy


def _clip(probability: float) -> float:
    return min(max(probability, _MIN_PROBABILITY), 1 - _MIN_PROBABILITY)


def _log_odds(probability: float) -> float:
    return math.log(probability / (1 - probability))
