"""How forecasts have held so far, by episode: from how many a probability follows. No I/O."""

import numpy as np
import numpy.typing as npt

from recall.similarity.measures import Floats

_MAX_EPISODES = 500  # the newest
_QUANTILE = 1.96  # of the normal distribution: intervals of 95 %
# Forecasts whose log odds differ by about this much are of the same kind.
_BANDWIDTH = 0.75
_MIN_PROBABILITY = 1e-3


class ForecastRecord:
    """The probabilities of the most probable labels, one for each episode."""

    def __init__(self, probabilities: npt.ArrayLike = ()) -> None:
        self._probabilities: list[float] = np.asarray(probabilities, dtype=float).tolist()

    def add(self, probability: float) -> None:
        """Add the forecast of an episode whose tag became known."""
        self._probabilities.append(probability)
        del self._probabilities[:-_MAX_EPISODES]

    def interval(self, probability: float) -> tuple[float, float]:
        """The 95 % interval of a probability (Wilson, JASA 1927).

        Its number of cases is that of the episodes with a similar probability, so that it is wide
        where few forecasts were tested.
        """
        return wilson_interval(probability, self._similar_count(probability))

    def _similar_count(self, probability: float) -> float:
        distances = (_log_odds(np.array(self._probabilities)) - _log_odds(probability)) / _BANDWIDTH
        return float(np.exp(-(distances**2) / 2).sum())

    def to_array(self) -> Floats:
        """The probabilities, oldest first."""
        return np.array(self._probabilities)


def _log_odds(probabilities: Floats | float) -> Floats:
    clipped = np.clip(probabilities, _MIN_PROBABILITY, 1 - _MIN_PROBABILITY)
    log_odds: Floats = np.log(clipped / (1 - clipped))
    return log_odds


def wilson_interval(share: float, count: float) -> tuple[float, float]:
    """The 95 % interval of a share of so many cases (Wilson, JASA 1927)."""
    spread = _QUANTILE**2
    center = (share * count + spread / 2) / (count + spread)
    variance = share * (1 - share) * count + spread / 4
    half_width = _QUANTILE * np.sqrt(variance) / (count + spread)
    return float(max(center - half_width, 0.0)), float(min(center + half_width, 1.0))
