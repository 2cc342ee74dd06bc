"""One distribution of tags from several, with a learned weight for each. No I/O.

The logarithms of the probabilities are added up, each with its weight (log-linear pooling: Genest,
Zidek, Statistical Science 1986), so that predictors that know different things add to each other: a
mean is never surer than the surest of them.
"""

import numpy as np

from recall.similarity.measures import Floats

# Added to probabilities before the logarithm, so that no predictor can rule a tag out.
_PROBABILITY_FLOOR = 1e-3
# The standard deviation of the weights around their means before anything is learned.
_DEVIATION = 0.3
# How much less each earlier episode counts: about the last 200.
_DECAY = 0.995


class TagPool:
    """The weights of predictors, which minimise the log loss of the pooled distribution.

    After each episode they move by one Newton step of its loss. The curvature is that of the losses
    so far and of a normal prior (online Newton step: Hazan, Agarwal, Kale, Machine Learning 2007).
    """

    def __init__(self, weights: Floats) -> None:
        """`weights`: before anything is learned."""
        self.weights = weights
        self._prior_curvature = np.eye(len(weights)) / _DEVIATION**2
        self._curvature = self._prior_curvature

    def pool(self, distributions: Floats) -> Floats:
        """By tag, the pooled probability. `distributions`: by predictor and tag."""
        logits = self.weights @ np.log(distributions + _PROBABILITY_FLOOR)
        exponentials = np.exp(logits - logits.max(initial=0.0))
        pooled: Floats = exponentials / exponentials.sum()
        return pooled

    def learn(
        self, distributions: Floats, pooled: Floats, tag_id: int, weight: float = 1.0
    ) -> None:
        """The tag of an event is known. `pooled`: what was predicted for it. `weight`: how much it
        counts.
        """
        logarithms = np.log(distributions + _PROBABILITY_FLOOR)
        means = logarithms @ pooled
        self._curvature = _DECAY * self._curvature + (1 - _DECAY) * self._prior_curvature
        variances = (logarithms * pooled) @ logarithms.T - np.outer(means, means)
        self._curvature += weight * variances
        slope = weight * (means - logarithms[:, tag_id])
        self.weights = self.weights - np.linalg.solve(self._curvature, slope)
