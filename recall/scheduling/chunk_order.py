"""The order in which a recall reads pieces of history. No I/O."""

import hashlib
import math
from collections.abc import Sequence
from itertools import chain
from statistics import median
from typing import NamedTuple

from recall.requests import Order, Piece, count_ages

# Of the draw of a piece in `weighted` order: the first 8 bytes of a hash as a number below 1.
_DRAW_BYTES = 8


class ValueRange(NamedTuple):
    """The least and the greatest value of a column in some rows. Times are in microseconds."""

    low: float
    high: float

    @property
    def is_empty(self) -> bool:
        """Whether there is no value."""
        return self.low > self.high


NO_VALUES = ValueRange(math.inf, -math.inf)
"""Of rows in which the column has no value."""


def rank_pieces(
    pieces: Sequence[Piece],
    upper_bounds: Sequence[float | None],
    order: Order,
    *,
    fade: float = 1.0,
    seed: str = "",
) -> tuple[list[Piece], int]:
    """Pieces in reading order, and how many of the first need not be read.

    `pieces` are newest first, or oldest first for that order. `upper_bounds`: how relevant each
    piece can be at most, by its summary. 0: it holds nothing of use and need not be read; None:
    there is no summary, so the piece counts as much as the best one.

    `promising` reads the pieces with the highest bounds first, newer ones before older ones of the
    same bound. `mixed` alternates between the newest piece and the most promising one. `weighted`
    draws the pieces without replacement, each with a chance in proportion to its bound times `fade`
    for each piece that is newer: what is read is a sample of what matches, not of the most frequent
    alone. `seed`: equal seeds give equal draws.
    """
    useless: list[Piece] = []
    useful: list[Piece] = []
    bounds: dict[Piece, float | None] = {}
    for piece, bound in zip(pieces, upper_bounds, strict=True):
        if bound == 0:
            useless.append(piece)
        else:
            useful.append(piece)
            bounds[piece] = bound
    if order == "promising":
        ranked = _by_upper_bound(useful, bounds)
    elif order == "mixed":
        ranked = interleave(useful, _by_upper_bound(useful, bounds))
    elif order == "weighted":
        ranked = _draw(useful, bounds, fade, seed)
    else:
        ranked = useful
    return [*useless, *ranked], len(useless)


def _by_upper_bound(pieces: Sequence[Piece], bounds: dict[Piece, float | None]) -> list[Piece]:
    """Pieces by descending bound; a stable sort, which keeps newer ones before older ones."""
    weights = _fill_bounds(bounds)
    return sorted(pieces, key=lambda piece: -weights[piece])


def _fill_bounds(bounds: dict[Piece, float | None]) -> dict[Piece, float]:
    """The bounds; a piece without a summary counts as much as the best one."""
    highest = max((bound for bound in bounds.values() if bound is not None), default=0.0)
    return {piece: highest if bound is None else bound for piece, bound in bounds.items()}


def _draw(
    pieces: Sequence[Piece], bounds: dict[Piece, float | None], fade: float, seed: str
) -> list[Piece]:
    """Pieces drawn one after the other with chances in proportion to their weights.

    The piece with the least exponentially distributed number of a rate is drawn first with a chance
    in proportion to the rate (Efraimidis and Spirakis, Weighted random sampling with a reservoir,
    Information Processing Letters 97, 2006). By logarithms, as `fade` to the power of an age may be
    too small for a float.
    """
    weights = _fill_bounds(bounds)
    ages = count_ages(pieces)

    def rank(piece: Piece) -> float:
        exponential = -math.log(_draw_number(f"{seed} {piece.chunk} {piece.high}"))
        log_weight = math.log(weights[piece] or 1.0) + ages[piece] * math.log(fade)
        return math.log(exponential) - log_weight

    return sorted(pieces, key=rank)


def _draw_number(text: str) -> float:
    """A number between 0 and 1, without these, that looks random and is equal for equal texts."""
    digest = hashlib.blake2b(text.encode(), digest_size=_DRAW_BYTES).digest()
    return (int.from_bytes(digest) + 0.5) / float(256**_DRAW_BYTES)


def rank_by_extremes(pieces: Sequence[Piece], values: Sequence[ValueRange | None]) -> list[Piece]:
    """Pieces whose values of a column lie farthest from its usual ones first.

    `values`: of each piece; None: not known, and read first. Usual is the median of the middles of
    the known ranges. Newer pieces come before older ones that lie as far, and pieces without a value
    last.
    """
    known_ranges = [span for span in values if span is not None and not span.is_empty]
    middles = [(span.low + span.high) / 2 for span in known_ranges]
    usual = median(middles) if middles else 0.0

    def rank(numbered: tuple[int, Piece]) -> float:
        span = values[numbered[0]]
        if span is None:
            return -math.inf
        return -max(span.high - usual, usual - span.low)  # infinite for one without a value

    return [piece for _, piece in sorted(enumerate(pieces), key=rank)]


def enclose_values(values: Sequence[ValueRange | None]) -> ValueRange | None:
    """The range that holds the values of all pieces; None: there are none, or one is not known."""
    known_ranges = [span for span in values if span is not None]
    if not values or len(known_ranges) < len(values):
        return None
    return ValueRange(
        min(span.low for span in known_ranges), max(span.high for span in known_ranges)
    )


def interleave(first: Sequence[Piece], second: Sequence[Piece]) -> list[Piece]:
    """The pieces of two lists in turn, each piece once. Both hold the same pieces."""
    alternating = chain.from_iterable(zip(first, second, strict=True))
    return list(dict.fromkeys(alternating))
