"""Lengths of pieces, and estimates of single values."""

import math

import pytest

from recall.operators.estimate import (
    AnswerEstimate,
    Moments,
    Sample,
    estimate_total,
    piece_seconds,
)
from recall.requests import Piece


def test_piece_without_a_beginning_counts_as_the_mean_of_the_others() -> None:
    pieces = [
        Piece(3, 4_000_000, 8_000_000),
        Piece(2, 2_000_000, 4_000_000),
        Piece(1, None, 2_000_000),
    ]
    assert piece_seconds(pieces) == [4.0, 2.0, 3.0]
    assert piece_seconds([Piece(1, None, 2_000_000)]) == [1.0]


def test_total_is_extrapolated_by_time() -> None:
    # Two pieces of 10 s with sums 4 and 6, of 100 s.
    moments = Moments(y=10.0, x=20.0, y_squares=52.0, products=100.0, x_squares=200.0)
    estimate = estimate_total(moments, Sample(2, 20.0, 200.0), 100.0)
    assert estimate.value == 50.0
    # Student's t with one degree of freedom, 80 % of the time unread.
    half_width = 12.706204736 * 100 / 20 * math.sqrt(2.0 * 0.8 * 2)
    assert estimate.high - estimate.value == pytest.approx(half_width)


def test_one_piece_has_no_interval() -> None:
    moments = Moments(y=4.0, x=10.0, y_squares=16.0, products=40.0, x_squares=100.0)
    assert estimate_total(moments, Sample(1, 10.0, 100.0), 100.0) == AnswerEstimate(40, None, None)


def test_nothing_is_estimated_from_no_time() -> None:
    moments = Moments(y=0.0, x=0.0, y_squares=0.0, products=0.0, x_squares=0.0)
    assert estimate_total(moments, Sample(), 100.0) == AnswerEstimate(None, None, None)
