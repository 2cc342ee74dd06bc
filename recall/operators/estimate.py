"""Estimates for the whole requested range, from the pieces of history that were read so far.

Sums and counts are extrapolated by time; averages are taken as they are. The confidence interval of
each follows from how much pieces differ: they count as clusters drawn without replacement, a sum as
the ratio estimate sum(y) / sum(t) * T (y: of a piece, t: its length of time, T: the requested
length), an average as the ratio sum(s) / sum(c). Variances and the finite population correction are
those of Cochran (Sampling Techniques, 3rd ed. 1977, section 6.4), with Student's t of n - 1 degrees
of freedom. Online aggregation by such intervals: Hellerstein, Haas and Wang (SIGMOD 1997).

Assumptions: unread pieces are like those that were read. Reading newest first is no random order,
so the interval does not show a trend or a weekly rhythm that the read pieces do not show. Two
pieces say little, one nothing (no interval). Minima, maxima and distinct counts can change in one
direction only: their interval is open on that side. Once all is read, an estimate is the exact
value. No I/O.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recall.requests import Piece

# The share of intervals that should contain the true value.
CONFIDENCE = 0.95

_DEFAULT_PIECE_SECONDS = 1.0


@dataclass(frozen=True)
class Sample:
    """The pieces that were read: their number, sums of their lengths and squared lengths (s)."""

    pieces: int = 0
    seconds: float = 0.0
    squared_seconds: float = 0.0

    def add_piece(self, piece_seconds: float) -> "Sample":
        """The sample with one more piece."""
        return Sample(
            pieces=self.pieces + 1,
            seconds=self.seconds + piece_seconds,
            squared_seconds=self.squared_seconds + piece_seconds * piece_seconds,
        )


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


def piece_seconds(pieces: Sequence[Piece]) -> list[float]:
    """The length of each piece of history in seconds.

    A piece without a beginning counts as the mean of the others.
    """
    known_lengths = [(piece.high - piece.low) / 1e6 for piece in pieces if piece.low is not None]
    mean = _DEFAULT_PIECE_SECONDS
    if known_lengths:
        mean = sum(known_lengths) / len(known_lengths)
    lengths = []
    for piece in pieces:
        if piece.low is None:
            lengths.append(mean)
        else:
            lengths.append((piece.high - piece.low) / 1e6)
    return lengths


@dataclass(frozen=True)
class Moments:
    """Sums over pieces: of `y` and of what it is related to, `x` (seconds, or a count).

    Also of y * y, x * y and x * x.
    """

    y: float
    x: float
    y_squares: float
    products: float
    x_squares: float

    @property
    def ratio(self) -> float:
        """y per x; NaN if x is 0."""
        return self.y / self.x if self.x else math.nan

    @property
    def residual_squares(self) -> float:
        """The sum of squared differences between each piece's y and `ratio` times its x."""
        ratio = self.ratio
        return self.y_squares - 2 * ratio * self.products + ratio * ratio * self.x_squares


def estimate_total(total: Moments, sample: Sample, requested_seconds: float) -> AnswerEstimate:
    """A sum over the requested range; x: the lengths of pieces."""
    return _with_interval(total, requested_seconds, sample, requested_seconds)


def estimate_average(mean: Moments, sample: Sample, requested_seconds: float) -> AnswerEstimate:
    """An average over the requested range; y: sums of pieces, x: their counts."""
    return _with_interval(mean, 1.0, sample, requested_seconds)


def _with_interval(
    moments: Moments, scale: float, sample: Sample, requested_seconds: float
) -> AnswerEstimate:
    """The estimate of `scale` times the ratio."""
    value = moments.ratio * scale
    if not math.isfinite(value):
        return AnswerEstimate(None, None, None)
    n = sample.pieces
    residual_squares = moments.residual_squares
    if n < 2 or not math.isfinite(residual_squares):
        return AnswerEstimate(value, None, None)
    unread_share = 0.0
    if requested_seconds:
        unread_share = max(1 - sample.seconds / requested_seconds, 0.0)
    variance = max(residual_squares, 0.0) * unread_share * n / (n - 1)
    from scipy.special import stdtrit  # a tenth of a second of processor time

    deviation = scale / abs(moments.x) * math.sqrt(variance)
    half_width = float(stdtrit(n - 1, (1 + CONFIDENCE) / 2)) * deviation
    if not math.isfinite(half_width):
        return AnswerEstimate(value, None, None)
    return AnswerEstimate(value, value - half_width, value + half_width)
