"""How forecasts have held so far, by episode: from how many a probability follows. No I/O."""

import numpy as np
import numpy.typing as npt

from recall.intervals import interval_by_cases
from recall.similarity.measures import Floats

_MAX_EPISODES = 500  # the newest


class ForecastRecord:
    """The probabilities of the most probable labels, one for each episode."""

    def __init__(self, probabilities: npt.ArrayLike = ()) -> None:
        self._probabilities: list[float] = np.asarray(probabilities, dtype=float).tolist()

    def add(self, probability: float) -> None:
        """Add the forecast of an episode whose tag became known."""
        self._probabilities.append(probability)
        del self._probabilities[:-_MAX_EPISODES]

    def interval(self, probability: float) -> tuple[float, float]:
        """The 95 % interval of a probability."""
        return interval_by_cases(probability, self._probabilities)

    def to_array(self) -> Floats:
        """The probabilities, oldest first."""
        return np.array(self._probabilities)
