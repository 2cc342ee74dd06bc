"""Intervals of probabilities."""

import pytest

from recall.intervals import interval_by_cases, wilson_interval


def test_interval_of_a_share_is_that_of_wilson() -> None:
    low, high = wilson_interval(0.5, 100)
    assert (low, high) == (pytest.approx(0.4038, abs=1e-4), pytest.approx(0.5962, abs=1e-4))


def test_nothing_was_tested_anything_is_possible() -> None:
    low, high = interval_by_cases(0.7, [])
    assert low == pytest.approx(0.0) and high == pytest.approx(1.0)


def test_similar_probabilities_narrow_the_interval() -> None:
    wide = interval_by_cases(0.7, [0.05] * 200)
    narrow = interval_by_cases(0.7, [0.7] * 200)
    assert narrow[1] - narrow[0] < 0.15 < wide[1] - wide[0]


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_certain_probabilities_have_an_interval(probability: float) -> None:
    low, high = interval_by_cases(probability, [probability] * 50)
    assert 0 <= low <= probability <= high <= 1
