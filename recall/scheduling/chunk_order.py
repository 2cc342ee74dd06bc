"""The order in which a recall reads pieces of history. No I/O."""

from collections.abc import Sequence
from itertools import chain

from recall.requests import Order, Piece


def rank_pieces(
    pieces: Sequence[Piece], upper_bounds: Sequence[float | None], order: Order
) -> tuple[list[Piece], int]:
    """Pieces in reading order, and how many of the first need not be read.

    `pieces` are newest first, or oldest first for that order. `upper_bounds`: how relevant each
    piece can be at most, by its summary. 0: it holds nothing of use and need not be read; None:
    there is no summary, so the piece counts as much as the best one.

    `promising` reads the pieces with the highest bounds first, newer ones before older ones of the
    same bound. `mixed` alternates between the newest piece and the most promising one.
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
    else:
        ranked = useful
    return [*useless, *ranked], len(useless)


def _by_upper_bound(pieces: Sequence[Piece], bounds: dict[Piece, float | None]) -> list[Piece]:
    """Pieces by descending bound; a stable sort, which keeps newer ones before older ones."""
    highest = max((bound for bound in bounds.values() if bound is not None), default=0.0)

    def rank(piece: Piece) -> float:
        bound = bounds[piece]
        return -(highest if bound is None else bound)

    return sorted(pieces, key=rank)


def interleave(first: Sequence[Piece], second: Sequence[Piece]) -> list[Piece]:
    """The pieces of two lists in turn, each piece once. Both hold the same pieces."""
    alternating = chain.from_iterable(zip(first, second, strict=True))
    return list(dict.fromkeys(alternating))
