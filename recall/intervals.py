"""Intervals of probabilities, by the number of cases in which similar ones were tested. No I/O.

Light to import, because every view of an answer needs it.
"""

from collections.abc import Iterable
from math import exp, log, sqrt

_QUANTILE = 1.96  # of the normal distribution: intervals of 95 %
# Probabilities whose log odds differ by about this much are of the same kind.
_BANDWIDTH = 0.75
_MIN_PROBABILITY = 1e-3


def wilson_interval(share: float, count: float) -> tuple[float, float]:
    """The 95 % interval of a share of so many cases (Wilson, JASA 1927)."""
    spread = _QUANTILE**2
    center = (share * count + spread / 2) / (count + spread)
    variance = share * (1 - share) * count + spread / 4
    half_width = _QUANTILE * sqrt(variance) / (count + spread)
    return max(center - half_width, 0.0), min(center + half_width, 1.0)


def interval_by_cases(probability: float, tested: Iterable[float]) -> tuple[float, float]:
    """The 95 % interval of a probability.

    `tested`: probabilities of cases whose outcome became known. The similar ones among them are its
    number of cases, so that it is wide where few were tested.
    """
    log_odds = _log_odds(probability)
    count = 0.0
    for value in tested:
        count += exp(-(((_log_odds(value) - log_odds) / _BANDWIDTH) ** 2) / 2)
    return wilson_interval(probability, count)


def _log_odds(probability: float) -> float:
    clipped = min(max(probability, _MIN_PROBABILITY), 1 - _MIN_PROBABILITY)
    return log(clipped / (1 - clipped))
