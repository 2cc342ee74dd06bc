"""The band of usual values, scores and ranks."""

import numpy as np
import pytest

from recall.norms.position import ABNORMAL, MAX_SCORE, find_band, find_rank


def test_score_is_by_the_quantile_of_the_side() -> None:
    values = np.linspace(-10, 10, 2_001)
    band = find_band(values, np.arange(2_001))
    for quantile, score in ((-9.5, -1.96), (0, 0), (4.75, 0.98), (9.5, 1.96), (19, 3.92)):
        assert band.find_score(quantile) == pytest.approx(score, abs=0.01)
    assert band.high == pytest.approx(3 * 9.5 / 1.96, abs=0.02)


def test_value_that_was_reached_before_is_usual() -> None:
    values = np.random.default_rng(2).normal(0, 1, 10_000)
    values[17] = 9.0
    band = find_band(values, np.arange(10_000) % 50)
    assert band.find_score(9.0) == pytest.approx(ABNORMAL)
    assert band.find_score(9.1) > ABNORMAL
    assert band.find_score(-6.0) < -ABNORMAL


def test_band_is_wider_above_where_values_are_skewed() -> None:
    values = np.random.default_rng(2).exponential(1, 10_000)
    band = find_band(values, np.arange(10_000))
    assert band.high - band.median > 3 * (band.median - band.low)
    assert band.find_score(band.high) == pytest.approx(ABNORMAL)
    assert band.find_score(band.low) == pytest.approx(-ABNORMAL)


def test_band_is_wider_with_fewer_cycles() -> None:
    values = np.linspace(-1, 1, 4_000)
    widths = [find_band(values, np.arange(4_000) % cycles).high for cycles in (4, 8, 60)]
    assert widths == sorted(widths, reverse=True)


def test_scores_are_finite() -> None:
    band = find_band(np.zeros(10), np.arange(10))
    assert [band.find_score(value) for value in (-1, 0, 1)] == [-MAX_SCORE, 0, MAX_SCORE]


def test_interval_of_rank_holds_the_truth_where_rows_of_a_cycle_depend() -> None:
    """Of 400 histories of 30 days whose level differs by day; the truth is known by the model."""
    rng = np.random.default_rng(4)
    cycles = np.repeat(np.arange(30), 12)
    covered = naive = 0
    for _ in range(400):
        values = np.repeat(rng.normal(0, 1, 30), 12) + rng.normal(0, 0.3, 360)
        truth = 0.8  # of N(0, 1.044): the value at 0.8416 deviations
        rank = find_rank(0.8416 * np.hypot(1, 0.3), values, cycles)
        covered += rank.low <= truth <= rank.high
        half = 1.96 * np.sqrt(rank.share * (1 - rank.share) / 360)
        naive += abs(rank.share - truth) <= half
    assert 0.93 <= covered / 400 <= 0.99
    assert naive / 400 < 0.6


def test_rank_of_an_extreme_is_as_sure_as_its_cycles_allow() -> None:
    values = np.random.default_rng(4).normal(0, 1, 1_000)
    few, many = (find_rank(9.0, values, np.arange(1_000) % cycles) for cycles in (4, 100))
    assert (few.share, many.share) == (1.0, 1.0)
    assert few.low < 0.6 < 0.95 < many.low
    assert (few.high, many.high) == (1.0, 1.0)
