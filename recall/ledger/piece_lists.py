"""The pieces that an ended task has read, in few bytes: whole chunks by their numbers. No I/O.

An item is a piece as a task stores it, or (first, last): all whole chunks with the numbers from the
first to the last, in steps of one up or down.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from archiver.time_range import TimeRange
from recall.requests import Piece

ChunkRanges = Mapping[int, TimeRange]


def shorten_pieces(pieces: Sequence[Piece], chunks: ChunkRanges) -> list[tuple[Any, ...]]:
    """`chunks`: the ranges of those that have ended."""
    items: list[tuple[Any, ...]] = []
    for piece in pieces:
        if piece.parts or chunks.get(piece.chunk) != piece.range:
            items.append(piece.to_json())
        elif items and _continues(items[-1], piece.chunk):
            items[-1] = items[-1][0], piece.chunk
        else:
            items.append((piece.chunk, piece.chunk))
    return items


def _continues(item: tuple[Any, ...], chunk: int) -> bool:
    """Whether a run of whole chunks goes on with a chunk."""
    if len(item) > 2:
        return False
    first, last = item
    steps = [1, -1]
    if first != last:
        steps = [1 if last > first else -1]
    return chunk - last in steps


def expand_pieces(items: Sequence[Sequence[Any]], chunks: ChunkRanges) -> Iterator[tuple[Any, ...]]:
    """The pieces as a task stores them. Raises `KeyError` with a chunk that does not exist any more."""
    for item in items:
        if len(item) > 2:
            yield tuple(item)
            continue
        first, last = item
        step = 1 if last >= first else -1
        for chunk in range(first, last + step, step):
            yield Piece.of_range(chunk, chunks[chunk]).to_json()
