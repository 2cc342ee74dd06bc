"""What the whole of an asked range is likely to say, from the pieces of history that were read so far. Pure.

Sums and counts are extrapolated by covered time, averages are as they are; each with a confidence interval from how
much pieces differ: pieces are taken for clusters drawn without replacement, a sum for the ratio estimate Σy / Σt · T
(y: of a piece, t: its length of time, T: the asked one), an average for the ratio Σs / Σc, with variances and the
finite population correction of Cochran (Sampling Techniques, 3rd ed. 1977, section 6.4) and Student's t with n − 1
degrees of freedom. Online aggregation by such intervals: Hellerstein, Haas and Wang (SIGMOD 1997).

Assumptions: pieces that were not read are like those that were. Reading newest first is no random order, so a trend or
a weekly rhythm that the read pieces do not show is not in the interval; two pieces say little, one nothing (no
interval). Minima, maxima and distinct counts can only go one way: their interval is open on that side. When all is
read, an estimate is the exact value.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scipy.special import stdtrit

from recall.request import Piece

# How often an interval is meant to hold the truth.
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Sample:
    """The pieces that were read: how many, the sum of their lengths and of the squares of these (seconds)."""

    pieces: int = 0
    length: float = 0.0
    squares: float = 0.0

    def and_one(self, length: float) -> "Sample":
        """With a further one."""
        return Sample(self.pieces + 1, self.length + length, self.squares + length * length)


@dataclass(frozen=True)
class Estimate:
    """The likely value over the asked range, between `low` and `high`; None: nothing is known of that side."""

    value: Any
    low: Any
    high: Any


def exact(value: Any) -> Estimate:
    """What is known."""
    return Estimate(value, value, value)


def lengths(pieces: Sequence[Piece]) -> list[float]:
    """How long each piece of history is, in seconds. One that has no beginning counts as the mean of the others."""
    known = [(high - low) / 1e6 for _, low, high in pieces if low is not None]
    mean = sum(known) / len(known) if known else 1.0
    return [mean if low is None else (high - low) / 1e6 for _, low, high in pieces]


@dataclass(frozen=True)
class Moments:
    """Two sums over pieces, of `y` and of what it is measured by, `x` (a length of time, a count); and the sums over
    pieces of y², x · y and x²."""

    y: float
    x: float
    squares: float
    both: float
    measures: float

    @property
    def rate(self) -> float:
        """y for each x."""
        return self.y / self.x if self.x else math.nan

    @property
    def apart(self) -> float:
        """The sum of squared differences of pieces from what their x lets expect."""
        return self.squares - 2 * self.rate * self.both + self.rate * self.rate * self.measures


def extrapolated(total: Moments, sample: Sample, asked: float) -> Estimate:
    """A sum over `asked` seconds; x: the lengths of pieces."""
    return _around(total.rate * asked, total, asked, sample, asked)


def averaged(mean: Moments, sample: Sample, asked: float) -> Estimate:
    """An average over `asked` seconds; y: totals of pieces, x: their counts."""
    return _around(mean.rate, mean, 1.0, sample, asked)


def _around(value: float, moments: Moments, scale: float, sample: Sample, asked: float) -> Estimate:
    """`scale`: what the value is of the rate."""
    apart, n = moments.apart, sample.pieces
    if not math.isfinite(value):
        return Estimate(None, None, None)
    if n < 2 or not math.isfinite(apart):
        return Estimate(value, None, None)
    left = max(1 - sample.length / asked, 0.0) if asked else 0.0
    deviation = scale / abs(moments.x) * math.sqrt(max(apart, 0.0) * left * n / (n - 1))
    half = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * deviation
    if not math.isfinite(half):
        return Estimate(value, None, None)
    return Estimate(value, value - half, value + half)
