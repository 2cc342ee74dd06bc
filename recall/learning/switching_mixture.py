"""Weights of several predictors, by how well each has predicted so far. No I/O.

The Fixed-Share forecaster (Herbster, Warmuth: Tracking the best expert, Machine Learning 1998): the
weight of each predictor is multiplied by exp(-loss), and a small share of all weight is then
divided among all predictors, so that one that becomes the best is found again. It is the posterior
of a model in which the best predictor may change with that probability at each step.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from recall.similarity.measures import Floats


class SwitchingMixture:
    """The weights of predictors; they add up to 1.

    Loss of the mixture: if each loss is a log loss, that of the mixed probabilities is at most the
    sum over any sequence of predictors with m changes plus `regret_bound(n, T, m, share)` nats
    (loc. cit., Theorem 5; for m = 0 and no share, ln n: Cesa-Bianchi, Lugosi: Prediction, Learning,
    and Games, 2006, Proposition 3.1). If losses are convex in a vector of weights, and the mixture
    is the mean of the predictors' vectors, the bound grows by 1/8 of the sum of the squared
    differences between the largest and the least loss of each step (loc. cit., Lemma 2.2, A.1).
    """

    def __init__(self, weights: Floats, share: float) -> None:
        """`weights`: before anything is learned. `share`: of the weight, divided at each step."""
        self.weights = weights / weights.sum()
        self._initial = self.weights
        self._share = share

    def learn(self, losses: Floats) -> None:
        """Add a step: the loss (nats) of each predictor."""
        weights = self.weights * np.exp(losses.min() - losses)
        self.weights = (1 - self._share) * weights / weights.sum() + self._share * self._initial


def regret_bound(initial: Floats, share: float, predictors: Sequence[int]) -> float:
    """How much larger the log loss of a mixture can be than that of a sequence of predictors.

    It is minus the logarithm of the prior probability of the sequence. `initial`: the weights
    before anything is learned.
    """
    probabilities = initial / initial.sum()
    bound = -math.log(probabilities[predictors[0]])
    for previous, following in pairwise(predictors):
        stays = (1 - share) * (previous == following)
        bound -= math.log(stays + share * probabilities[following])
    return bound
