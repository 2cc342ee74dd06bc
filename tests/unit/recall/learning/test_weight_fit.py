"""Fitting weights."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from recall.learning.weight_fit import fit_logistic, fit_weights, sigmoid
from recall.similarity.measures import Floats


def _count_threads() -> set[int]:
    return {
        library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"
    }


def test_weights_are_fitted_by_one_thread() -> None:
    goal = np.array([1.0, -2.0, 3.0])
    threads: set[int] = set()

    def loss(weights: Floats) -> tuple[float, Floats]:
        threads.update(_count_threads())
        return float(((weights - goal) ** 2).sum()), 2 * (weights - goal)

    fit_weights(loss, np.zeros(3))
    before = _count_threads()
    threads.clear()
    np.testing.assert_allclose(fit_weights(loss, np.zeros(3)), goal, atol=1e-6)
    assert threads == {1}
    assert _count_threads() == before


def regression_slope(
    weights: Floats, cases: tuple[Floats, Floats, Floats], prior: Floats, deviations: Floats
) -> Floats:
    """Of the loss: 0 where it is least."""
    rows, outcomes, counts = cases
    errors = counts * (sigmoid(rows @ weights) - outcomes)
    return rows.T @ errors + (weights - prior) / deviations**2


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("start", [None, np.array([20.0, -20.0])])
def test_weights_of_a_regression_are_where_the_slope_is_zero(
    scale: float, start: Floats | None
) -> None:
    rng = np.random.default_rng(0)
    rows = np.column_stack([np.ones(200), scale * rng.normal(size=200)])
    cases = (rows, (rng.random(200) < sigmoid(rows.sum(axis=1))).astype(float), rng.random(200))
    prior, deviations = np.array([0.0, 1.0]), np.array([1.5, 1.0])
    weights = fit_logistic(
        rows, cases[1], prior, cases[2], start=start, prior_deviations=deviations
    )
    assert np.abs(regression_slope(weights, cases, prior, deviations)).max() < 1e-4 * max(scale, 1)


def test_equal_outcomes_leave_weights_finite() -> None:
    rows = np.column_stack([np.ones(50), np.linspace(-30, 30, 50)])
    weights = fit_logistic(rows, np.ones(50), np.array([0.0, 1.0]))
    assert np.isfinite(weights).all() and weights[0] > 1
