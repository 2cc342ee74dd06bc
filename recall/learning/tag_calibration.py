"""Calibrated probabilities of tags, with that of a tag that was never seen. No I/O.

Both are fitted to predictions that were made before the tag was known: the temperature by which
logarithms of probabilities are divided (Guo et al., ICML 2017), and a logistic regression of
whether the tag was new.
"""

from collections import deque
from dataclasses import dataclass

import numpy as np

from recall.similarity import Floats

_MAX_PREDICTIONS = 1000  # the newest are fitted to
_REFIT_GROWTH = 0.15
_FIRST_FIT = 10  # predictions
_TEMPERATURES = np.exp(np.linspace(np.log(0.5), np.log(4.0), 43))
# The prior of log(temperature): mean 0, this standard deviation.
_TEMPERATURE_DEVIATION = 0.3
# The standard deviation of the weights of the regression.
_WEIGHT_DEVIATION = 1.0
_MAX_ITERATIONS = 50
# How much less each earlier event counts in the share of new tags: about the last 50.
_NOVELTY_DECAY = 0.98
_NOVELTY_SMOOTHING = 1.0  # events, half of them with new tags
_MIN_PROBABILITY = 1e-6


@dataclass(frozen=True)
class PastPrediction:
    """A prediction that was made before the tag was known.

    `tag`: its number; None: it was not among the tags. `features`: see `novelty_features`.
    """

    log_probabilities: Floats
    features: Floats
    tag: int | None


class TagCalibration:
    """The temperature, the regression, and the newest predictions that they are fitted to."""

    def __init__(self, temperature: float = 1.0, weights: Floats | None = None) -> None:
        """`weights`: of the regression; None: before anything is learned."""
        self.temperature = temperature
        # With these weights, the probability of a new tag is the recent share of new tags.
        self.weights = np.array([0.0, 1.0, 0.0, 0.0]) if weights is None else weights
        self._prior_weights = np.array([0.0, 1.0, 0.0, 0.0])
        self._predictions: deque[PastPrediction] = deque(maxlen=_MAX_PREDICTIONS)
        self._prediction_count = 0
        self._next_fit = _FIRST_FIT
        self.event_count = 0.0
        """Events of known tag, recent ones counting more."""
        self.new_tag_count = 0.0
        """Of these, the first of their tag."""

    def features(self, log_probabilities: Floats, unknown_share: float) -> Floats:
        """The features of the regression.

        `unknown_share`: of the context's terms, those that no learned event has.
        """
        share = (self.new_tag_count + _NOVELTY_SMOOTHING / 2) / (
            self.event_count + _NOVELTY_SMOOTHING
        )
        best = min(float(np.exp(log_probabilities.max())), 1 - _MIN_PROBABILITY)
        return np.array([1.0, np.log(share / (1 - share)), np.log(1 - best), unknown_share])

    def probabilities(
        self, log_probabilities: Floats, unknown_share: float
    ) -> tuple[Floats, float]:
        """The probability of each tag, and that of a tag that was never seen. They add up to 1."""
        logit = float(self.features(log_probabilities, unknown_share) @ self.weights)
        new_tag = float(np.clip(1 / (1 + np.exp(-logit)), _MIN_PROBABILITY, 1 - _MIN_PROBABILITY))
        scaled = log_probabilities / self.temperature
        shares = np.exp(scaled - scaled.max())
        return shares / shares.sum() * (1 - new_tag), new_tag

    def learn(self, prediction: PastPrediction | None, is_new_tag: bool) -> None:
        """Add an event whose tag became known; its prediction is None if none could be made."""
        self.event_count = self.event_count * _NOVELTY_DECAY + 1
        self.new_tag_count = self.new_tag_count * _NOVELTY_DECAY + is_new_tag
        if prediction is None:
            return
        self._predictions.append(prediction)
        self._prediction_count += 1
        if self._prediction_count >= self._next_fit:
            self._next_fit = int(self._prediction_count * (1 + _REFIT_GROWTH)) + _FIRST_FIT
            self.fit()

    def fit(self) -> None:
        """Fit to the newest predictions; nothing happens without one."""
        if not self._predictions:
            return
        self._fit_temperature()
        self._fit_weights()

    def _fit_temperature(self) -> None:
        losses = (np.log(_TEMPERATURES) / _TEMPERATURE_DEVIATION) ** 2 / 2
        for prediction in self._predictions:
            if prediction.tag is None:
                continue
            scaled = prediction.log_probabilities[None, :] / _TEMPERATURES[:, None]
            losses += np.log(np.exp(scaled).sum(axis=1)) - scaled[:, prediction.tag]
        self.temperature = float(_TEMPERATURES[np.argmin(losses)])

    def _fit_weights(self) -> None:
        from scipy.optimize import minimize

        features = np.array([prediction.features for prediction in self._predictions])
        is_new = np.array([prediction.tag is None for prediction in self._predictions], dtype=float)

        def loss(weights: Floats) -> tuple[float, Floats]:
            logits = features @ weights
            deviations = (weights - self._prior_weights) / _WEIGHT_DEVIATION
            value = np.logaddexp(0, logits).sum() - is_new @ logits + 0.5 * (deviations**2).sum()
            predicted = 1 / (1 + np.exp(-logits))
            return float(value), features.T @ (predicted - is_new) + deviations / _WEIGHT_DEVIATION

        options = {"maxiter": _MAX_ITERATIONS}
        self.weights = minimize(loss, self.weights, jac=True, method="L-BFGS-B", options=options).x
