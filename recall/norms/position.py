"""Where a value stands among the earlier values of its season. No I/O.

Rows of one cycle depend on each other: a slow hour is slow in all of its rows. So uncertainty is
counted by cycles. The variance of a share is that of a ratio over cycles; with it the share has the
interval of Wilson for the number of independent rows that have this variance (Korn and Graubard,
Survey Methodology 1998), at least one a cycle.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from recall.intervals import wilson_interval
from recall.norms.cycles import Times

Values = npt.NDArray[np.float64]

MIN_CYCLES = 4
ABNORMAL = 3.0
"""The score beyond which a value is abnormal."""
MAX_SCORE = 100.0
_QUANTILES = (0.025, 0.25, 0.5, 0.75, 0.975)
_Z = 1.959964  # half the width of a 95 % interval of a normal distribution, in its deviations
_CACHED_COUNTS = 10_000


class Rank(NamedTuple):
    """The share of values below a value, equal ones by half, and its 95 % interval over cycles."""

    share: float
    low: float
    high: float


@dataclass(frozen=True)
class Band:
    """Quantiles of values, and the units of scores below and above the median."""

    q025: float
    q25: float
    median: float
    q75: float
    q975: float
    below: float
    above: float

    @property
    def low(self) -> float:
        """The least value that is not abnormal."""
        return self.median - ABNORMAL * self.below

    @property
    def high(self) -> float:
        """The greatest value that is not abnormal."""
        return self.median + ABNORMAL * self.above

    def find_score(self, value: float) -> float:
        """The distance from the median, negative below.

        In units of which the 2.5 % or 97.5 % quantile on that side is 1.96 away, as are deviations
        of a normal distribution, less where there are few cycles, by Student's t; and of which the
        most extreme value is at most 3 away.
        """
        distance = value - self.median
        if not distance:
            return 0.0
        unit = self.above if distance > 0 else self.below
        if not unit:
            return math.copysign(MAX_SCORE, distance)
        return max(-MAX_SCORE, min(MAX_SCORE, distance / unit))


def find_band(values: Values, cycles: Times) -> Band:
    """`cycles`: the number of the cycle of each of the values, of which there are some."""
    q025, q25, median, q75, q975 = map(float, np.quantile(values, _QUANTILES))
    widening = _student_quantile(len(np.unique(cycles))) / _Z
    below = _find_unit(median - q025, median - float(values.min()), widening)
    above = _find_unit(q975 - median, float(values.max()) - median, widening)
    return Band(q025, q25, median, q75, q975, below, above)


def _find_unit(to_quantile: float, to_extreme: float, widening: float) -> float:
    """The unit on one side of the median. A value that was reached before is not abnormal."""
    return max(to_quantile / _Z * widening, to_extreme / ABNORMAL)


@lru_cache(_CACHED_COUNTS)
def _student_quantile(cycles: int) -> float:
    from scipy.special import stdtrit  # a tenth of a second of processor time

    return float(stdtrit(max(1, cycles - 1), 0.975))


def find_rank(value: float, values: Values, cycles: Times) -> Rank:
    """`cycles`: as of `find_band`."""
    is_below = (values < value) + 0.5 * (values == value)
    share = float(is_below.mean())
    _, groups = np.unique(cycles, return_inverse=True)
    counts = np.bincount(groups)
    count = len(counts)
    independent = float(count)
    if count > 1:
        residuals = np.bincount(groups, is_below) - share * counts
        variance = count / (count - 1) * float(np.sum(residuals**2)) / len(values) ** 2
        if variance > 0:
            by_variance = share * (1 - share) / variance
            independent = min(float(len(values)), max(independent, by_variance))
    low, high = wilson_interval(share, independent)
    return Rank(share, min(low, share), max(high, share))
