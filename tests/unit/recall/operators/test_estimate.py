"""Estimates of single values."""

import math

import pytest

from recall.operators.estimate import (
    AnswerEstimate,
    Moments,
    Sample,
    estimate_total,
)


def test_total_is_extrapolated_by_time() -> None:
    # Two turns of 10 s with sums 4 and 6, of 100 s.
    moments = Moments(y=10.0, x=20.0, y_squares=5.2)
    estimate = estimate_total(moments, Sample(2, 20.0), 100.0)
    assert estimate.value == 50.0
    # Student's t with one degree of freedom, 80 % of the time unread.
    half_width = 12.706204736 * 100 / 20 * math.sqrt(2.0 * 0.8 * 2)
    assert estimate.high - estimate.value == pytest.approx(half_width)


def test_one_turn_has_no_interval() -> None:
    moments = Moments(y=4.0, x=10.0, y_squares=1.6)
    assert estimate_total(moments, Sample(1, 10.0), 100.0) == AnswerEstimate(40, None, None)


def test_nothing_is_estimated_from_no_time() -> None:
    moments = Moments(y=0.0, x=0.0, y_squares=0.0)
    assert estimate_total(moments, Sample(), 100.0) == AnswerEstimate(None, None, None)
