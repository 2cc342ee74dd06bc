"""In which order a recall reads pieces of history. Pure."""

from collections.abc import Sequence

from recall.requests import Order, Piece


def rank_pieces(
    pieces: Sequence[Piece], upper_bounds: Sequence[float | None], order: Order
) -> tuple[list[Piece], int]:
    """Pieces as they are read, and how many at their beginning need not be: their summaries say that they hold nothing.

    `pieces`: newest first, or oldest first where that is the order; `promises`: what the summary of each promises at
    most (0: nothing; None: there is no summary). `promising` reads the pieces that promise most first, newer ones
    before older ones of the same promise, and takes those without a summary for the best that is known; `mixed` takes
    turns between the newest and the most promising, so that neither waits for the other.
    """
    nothing = [piece for piece, promise in zip(pieces, upper_bounds, strict=True) if promise == 0]
    rest = [
        (piece, promise)
        for piece, promise in zip(pieces, upper_bounds, strict=True)
        if promise != 0
    ]
    best = max((promise for _, promise in rest if promise is not None), default=0.0)
    hopeful = sorted(
        rest, key=lambda one: -(best if one[1] is None else one[1])
    )  # stable: newer ones stay before
    if order == "promising":
        wanted = [piece for piece, _ in hopeful]
    elif order == "mixed":
        wanted = interleave([piece for piece, _ in rest], [piece for piece, _ in hopeful])
    else:
        wanted = [piece for piece, _ in rest]
    return [*nothing, *wanted], len(nothing)


def interleave(first: Sequence[Piece], second: Sequence[Piece]) -> list[Piece]:
    """One of each list in turn, each piece once."""
    both = [piece for pair in zip(first, second, strict=True) for piece in pair]
    return list(dict.fromkeys(both))
