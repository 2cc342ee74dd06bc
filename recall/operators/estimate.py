"""Estimates for the whole requested range, from the pieces of history that were read so far.

Sums and counts are extrapolated by time; averages are taken as they are. The confidence interval of
each follows from how much clusters differ, which are the turns in which history was read, one piece
or many at a time. Of a cluster, y is what is estimated and x its size: for a sum or count the length
of its time, for an average the number of its rows. The estimate is R = sum(y) / sum(x). The variance
of y around R x is taken to grow with x, so that long turns and short ones count alike: it is estimated
as s2 = sum((y - R x)^2 / x) / (n - 1), and that of R as s2 / sum(x) times the unread share of time.
The interval is that of Student's t with n - 1 degrees of freedom (Royall, On finite population
sampling theory under certain linear regression models, Biometrika 57, 1970). Online aggregation by
such intervals: Hellerstein, Haas and Wang (SIGMOD 1997).

Assumptions: unread history is like what was read. Reading newest first is no random order, so the
interval does not show a trend or a weekly rhythm that the read history does not show. Two turns say
little, one nothing (no interval). Minima, maxima and distinct counts can change in one
direction only: their interval is open on that side. Once all is read, an estimate is the exact
value. No I/O.
"""

import math
from dataclasses import dataclass
from typing import Any

# The share of intervals that should contain the true value.
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Sample:
    """What was read: the number of turns, and the sum of their lengths (s)."""

    turns: int = 0
    seconds: float = 0.0

    def add_turn(self, turn_seconds: float) -> "Sample":
        """The sample with one more turn."""
        return Sample(self.turns + 1, self.seconds + turn_seconds)


@dataclass(frozen=True)
class AnswerEstimate:
    """The estimated value over the requested range, and its interval; None: not known.

    The fields are keys of stored JSON.
    """

    value: Any
    low: Any
    high: Any


def exact_estimate(value: Any) -> AnswerEstimate:
    """The estimate of a value that is known."""
    return AnswerEstimate(value, value, value)


@dataclass(frozen=True)
class Moments:
    """Sums over turns: of `y`, of their size `x` (seconds, or a count), and of y * y / x."""

    y: float
    x: float
    y_squares: float

    @property
    def ratio(self) -> float:
        """y per x; NaN if x is 0."""
        return self.y / self.x if self.x else math.nan

    @property
    def residual_squares(self) -> float:
        """The sum of squared differences between each turn's y and `ratio` times its x, per x."""
        return self.y_squares - self.ratio * self.y


def estimate_total(total: Moments, sample: Sample, requested_seconds: float) -> AnswerEstimate:
    """A sum over the requested range; x: the lengths of turns."""
    return _with_interval(total, requested_seconds, sample, requested_seconds)


def estimate_average(mean: Moments, sample: Sample, requested_seconds: float) -> AnswerEstimate:
    """An average over the requested range; y: sums of turns, x: their counts."""
    return _with_interval(mean, 1.0, sample, requested_seconds)


def _with_interval(
    moments: Moments, scale: float, sample: Sample, requested_seconds: float
) -> AnswerEstimate:
    """The estimate of `scale` times the ratio."""
    value = moments.ratio * scale
    if not math.isfinite(value):
        return AnswerEstimate(None, None, None)
    n = sample.turns
    residual_squares = moments.residual_squares
    if n < 2 or not math.isfinite(residual_squares):
        return AnswerEstimate(value, None, None)
    unread_share = 0.0
    if requested_seconds:
        unread_share = max(1 - sample.seconds / requested_seconds, 0.0)
    variance = max(residual_squares, 0.0) / (n - 1) * unread_share / abs(moments.x)
    from scipy.special import stdtrit  # a tenth of a second of processor time

    half_width = scale * float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * math.sqrt(variance)
    if not math.isfinite(half_width):
        return AnswerEstimate(value, None, None)
    return AnswerEstimate(value, value - half_width, value + half_width)
