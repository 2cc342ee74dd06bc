"""Fitting weights."""

import numpy as np
from threadpoolctl import threadpool_info

from recall.learning.weight_fit import fit_weights
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
