"""How forecasts have held as they were shown: the record of a recall. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from archiver.times import Micros
from recall.learning import MIN_EPISODES, number_episodes
from recall.relevance.quality import MetricEstimate, bootstrap_intervals
from recall.relevance.rankers import Floats

RECORD_EPISODES = 50
"""The newest resolved episodes, of which a record consists."""
_MIN_PROBABILITY = 1e-12  # in log losses


@dataclass(frozen=True)
class ShownForecast:
    """What was shown about an event, whose tag is known now.

    `probability`, `frequency`: of the tag, by the forecast and by plain frequencies. `withheld`:
    nothing was shown, and the frequencies count as the forecast.
    """

    ts: Micros
    tag: str
    probability: float
    frequency: float
    withheld: bool


@dataclass(frozen=True)
class ShownRecord:
    """The log losses of the newest resolved episodes, as means in nats.

    `excess`: of the forecasts, compared with plain frequencies, with its 95 % interval.
    `withheld_share`: of the episodes.
    """

    episodes: int
    log_loss: float
    frequency_log_loss: float
    excess: MetricEstimate
    withheld_share: float

    @property
    def is_worse(self) -> bool:
        """Whether the forecasts were worse than frequencies, beyond chance."""
        return self.episodes >= MIN_EPISODES and self.excess.low > 0


def measure_shown(forecasts: Sequence[ShownForecast], gap: Micros) -> ShownRecord | None:
    """The record of forecasts in time order; None without any. An episode is one sample."""
    if not forecasts:
        return None
    numbers = np.array(number_episodes(((row.tag, row.ts) for row in forecasts), gap))
    newest = np.flatnonzero(numbers > numbers.max() - RECORD_EPISODES)
    groups = numbers[newest] - numbers[newest].min()
    values = np.array([_losses(forecasts[row]) for row in newest.tolist()])
    sizes = np.bincount(groups)[:, None]
    sums = np.zeros((len(sizes), values.shape[1]))
    np.add.at(sums, groups, values)
    means: Floats = sums / sizes
    excess = means[:, :1] - means[:, 1:2]
    return ShownRecord(
        episodes=len(means),
        log_loss=float(means[:, 0].mean()),
        frequency_log_loss=float(means[:, 1].mean()),
        excess=bootstrap_intervals(excess, np.arange(len(means)))[0],
        withheld_share=float(means[:, 2].mean()),
    )


def _losses(forecast: ShownForecast) -> tuple[float, float, float]:
    """The log losses of forecast and frequencies, and 1 if it was withheld, else 0."""
    frequency = max(forecast.frequency, _MIN_PROBABILITY)
    probability = max(forecast.probability, _MIN_PROBABILITY)
    if forecast.withheld:
        probability = frequency
    return -np.log(probability), -np.log(frequency), float(forecast.withheld)
