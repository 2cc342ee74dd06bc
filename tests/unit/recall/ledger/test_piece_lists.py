"""Pieces of ended tasks in few bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.time_range import TimeRange
from recall.ledger.piece_lists import expand_pieces, shorten_pieces
from recall.requests import Piece

CHUNKS = {
    number: TimeRange(10 * number if number else None, 10 * number + 10) for number in range(9)
}


def whole(*numbers: int) -> list[Piece]:
    return [Piece.of_range(number, CHUNKS[number]) for number in numbers]


def test_whole_chunks_become_runs_and_cut_ones_stay() -> None:
    pieces = [Piece(9, 90, 95), *whole(8, 7, 6, 2), Piece(1, 15, 20), *whole(3, 4)]
    assert shorten_pieces(pieces, CHUNKS) == [
        (9, 90, 95),
        (8, 6),
        (2, 2),
        (1, 15, 20),
        (3, 4),
    ]


def test_chunk_that_was_open_when_it_was_read_stays() -> None:
    assert shorten_pieces([Piece(8, 80, 85)], CHUNKS) == [(8, 80, 85)]


def test_deleted_chunk_is_named() -> None:
    with pytest.raises(KeyError, match="8"):
        list(expand_pieces([(8, 7)], {7: CHUNKS[7]}))


@given(st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=12))
def test_expanded_pieces_are_those_that_were_shortened(numbers: list[tuple[int, bool]]) -> None:
    pieces = []
    for number, is_whole in numbers:
        (piece,) = whole(number)
        if not is_whole:
            piece = Piece(number, piece.low, piece.high - 1)
        pieces.append(piece)
    shortened = shorten_pieces(pieces, CHUNKS)
    assert list(expand_pieces(shortened, CHUNKS)) == [piece.to_json() for piece in pieces]
