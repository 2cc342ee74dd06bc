"""How much each similarity of two events counts, learned from pairs of equal and other tags. No I/O.

The score of a past event is a weighted sum of features of the pair. The weights minimise the cross
entropy between two distributions over some past events: in proportion to exp(score), and uniform
over those with the same tag (ListNet: Cao et al., ICML 2007). A normal prior centred at
`attributes` alone makes the measure begin as `attributes` and move away from it as evidence
accumulates.
"""

from collections import deque
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from recall.learning.switching_mixture import SwitchingMixture
from recall.learning.weight_fit import fit_weights
from recall.similarity.measures import Floats


class Feature(IntEnum):
    """The features of a pair of events, by column."""

    ATTRIBUTES = 0
    """The score of the measure of that name."""
    TFIDF = 1
    BINARY = 2
    TAG = 3
    """Logarithm of the probability that the new event has the past event's tag, plus 0.01."""
    PLACE = 4
    """1 if both events occurred at the same place, else 0."""
    RECENCY = 5
    """Minus the logarithm of the past event's age in days."""


TERM_FEATURES = 3
"""The first features compare terms. They are 1 for equal contexts, and 0 without a shared term."""

# The mean and standard deviation of each weight before anything is learned.
_PRIOR_MEANS = np.array([10.0, 0.0, 0.0, 0.0, 0.0, 0.0])
_PRIOR_DEVIATIONS = np.array([10.0, 10.0, 10.0, 1.0, 1.0, 0.5])
# The newest events that the weights are fitted to.
_MAX_QUERIES = 500
# Weights are fitted again when this share of events has been added.
_REFIT_GROWTH = 0.5
_FIRST_FIT = 5  # events
# Base rankings: `attributes`, `tfidf`, and both together, each at several scales.
_SCALES = (5.0, 10.0, 20.0)
_BASE_RANKINGS = ((1.0, 0.0), (0.0, 1.0), (0.5, 0.5))
_BASE_WEIGHTS = np.array(
    [[scale * a, scale * t, 0, 0, 0, 0] for a, t in _BASE_RANKINGS for scale in _SCALES]
)
# Fitted weights are sharper than they should be on samples that they were not fitted to. A scale does
# not change the order of events.
_FITTED_SCALES = np.array([0.25, 0.5, 1.0])

_SHARE = 0.01  # the chance that another ranking becomes the best one, at each sample
_INITIAL_BASE = 1.0
_INITIAL_FITTED = 3.0


@dataclass(frozen=True)
class PairSample:
    """A new event with some past events: their features, and whether they have the same tag.

    `shares`: how much each past event counts. All events of a tag count 1 together, drawn or not:
    they are equally relevant, and a tag is not more probable because it has many. `weight`: how
    much the sample counts.
    """

    features: Floats
    relevant: npt.NDArray[np.bool_]
    shares: Floats
    weight: float = 1.0


class PairModel:
    """The weights, and the newest samples that they are fitted to.

    Fitted weights may rank worse than those from which they began: samples are few, or of the past.
    So the weights that rank are a mean of fitted ones and those of base rankings, each counting by
    its losses on samples that it was not fitted to.
    """

    def __init__(self, weights: Floats | None = None, *, refits: bool = True) -> None:
        """`weights`: those that rank; None: the prior's. `refits`: whether `learn` fits them."""
        self._refits = refits
        self.weights = _PRIOR_MEANS.copy() if weights is None else weights
        self.fitted_weights = self.weights
        initial = np.full(len(self._rankings()), _INITIAL_BASE)
        initial[len(_BASE_WEIGHTS) :] = _INITIAL_FITTED
        self.mixture = SwitchingMixture(initial, _SHARE)
        self._samples: deque[PairSample] = deque(maxlen=_MAX_QUERIES)
        self._sample_count = 0
        self._next_fit = _FIRST_FIT

    @property
    def is_fitted(self) -> bool:
        """Whether the weights differ from those before learning."""
        return not np.array_equal(self.weights, _PRIOR_MEANS)

    @property
    def term_weight(self) -> float:
        """What the terms of equal contexts add up to; at least 1."""
        return max(float(self.weights[:TERM_FEATURES].sum()), 1.0)

    def _rankings(self) -> Floats:
        """The weights of the rankings that are mixed, as rows."""
        return np.concatenate([_BASE_WEIGHTS, np.outer(_FITTED_SCALES, self.fitted_weights)])

    def learn(self, sample: PairSample) -> None:
        """Add a sample. The weights are fitted again from time to time."""
        self.mixture.learn(sample.weight * sample_losses(sample, self._rankings()))
        self._samples.append(sample)
        self._sample_count += 1
        if self._refits and self._sample_count >= self._next_fit:
            self._next_fit = int(self._sample_count * (1 + _REFIT_GROWTH)) + _FIRST_FIT
            self.fit()

        self._mix_weights()

    def fit(self) -> None:
        """Fit the weights to the samples."""
        if not self._samples:
            return
        features = np.concatenate([sample.features for sample in self._samples])
        relevant = np.concatenate([sample.relevant for sample in self._samples]).astype(float)
        sizes = np.array([len(sample.relevant) for sample in self._samples])
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        offsets = np.log(np.concatenate([sample.shares for sample in self._samples]))
        targets = relevant / np.repeat(np.add.reduceat(relevant, starts), sizes)
        sample_weights = np.array([sample.weight for sample in self._samples])
        row_weights = np.repeat(sample_weights, sizes)
        targets *= row_weights

        def loss(weights: Floats) -> tuple[float, Floats]:
            scores = features @ weights + offsets
            scores -= np.repeat(np.maximum.reduceat(scores, starts), sizes)
            exponentials = np.exp(scores)
            totals = np.add.reduceat(exponentials, starts)
            deviations = (weights - _PRIOR_MEANS) / _PRIOR_DEVIATIONS
            value = sample_weights @ np.log(totals) - targets @ scores
            value += 0.5 * (deviations**2).sum()
            errors = row_weights * exponentials / np.repeat(totals, sizes) - targets
            slope = features.T @ errors + deviations / _PRIOR_DEVIATIONS
            return float(value), slope

        self.fitted_weights = fit_weights(loss, self.fitted_weights)

        self._mix_weights()

    def _mix_weights(self) -> None:
        self.weights = self.mixture.weights @ self._rankings()


def sample_losses(sample: PairSample, rankings: Floats) -> Floats:
    """By ranking (a row of weights), its cross entropy on a sample."""
    scores = sample.features @ rankings.T + np.log(sample.shares)[:, None]
    scores -= scores.max(axis=0)
    losses: Floats = np.log(np.exp(scores).sum(axis=0)) - scores[sample.relevant].mean(axis=0)
    return losses
