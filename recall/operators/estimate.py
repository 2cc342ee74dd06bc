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

from recall.requests import Piece

# How often an interval is meant to hold the truth.
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Sample:
    """The pieces that were read: how many, the sum of their lengths and of the squares of these (seconds)."""

    pieces: int = 0
    seconds: float = 0.0
    squared_seconds: float = 0.0

    def add_piece(self, piece_seconds: float) -> "Sample":
        """With a further one."""
        return Sample(
            self.pieces + 1,
            self.seconds + piece_seconds,
            self.squared_seconds + piece_seconds * piece_seconds,
        )


@dataclass(frozen=True)
class AnswerEstimate:
    """The likely value over the asked range, between `low` and `high`; None: nothing is known of that side."""

    value: Any
    low: Any
    high: Any


def exact_estimate(value: Any) -> AnswerEstimate:
    """What is known."""
    return AnswerEstimate(value, value, value)


def piece_seconds(pieces: Sequence[Piece]) -> list[float]:
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
    y_squares: float
    products: float
    x_squares: float

    @property
    def ratio(self) -> float:
        """y for each x."""
        return self.y / self.x if self.x else math.nan

    @property
    def residual_squares(self) -> float:
        """The sum of squared differences of pieces from what their x lets expect."""
        return (
            self.y_squares
            - 2 * self.ratio * self.products
            + self.ratio * self.ratio * self.x_squares
        )


def estimate_total(total: Moments, sample: Sample, requested_seconds: float) -> AnswerEstimate:
    """A sum over `asked` seconds; x: the lengths of pieces."""
    return _with_interval(
        total.ratio * requested_seconds, total, requested_seconds, sample, requested_seconds
    )


def estimate_average(mean: Moments, sample: Sample, requested_seconds: float) -> AnswerEstimate:
    """An average over `asked` seconds; y: totals of pieces, x: their counts."""
    return _with_interval(mean.ratio, mean, 1.0, sample, requested_seconds)


def _with_interval(
    value: float, moments: Moments, scale: float, sample: Sample, asked: float
) -> AnswerEstimate:
    """`scale`: what the value is of the rate."""
    apart, n = moments.residual_squares, sample.pieces
    if not math.isfinite(value):
        return AnswerEstimate(None, None, None)
    if n < 2 or not math.isfinite(apart):
        return AnswerEstimate(value, None, None)
    left = max(1 - sample.seconds / asked, 0.0) if asked else 0.0
    deviation = scale / abs(moments.x) * math.sqrt(max(apart, 0.0) * left * n / (n - 1))
    half = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * deviation
    if not math.isfinite(half):
        return AnswerEstimate(value, None, None)
    return AnswerEstimate(value, value - half, value + half)
