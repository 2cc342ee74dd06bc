"""Fits a few weights by minimising a smooth loss. No I/O."""

from collections.abc import Callable
from functools import cache
from typing import Any

from recall.similarity.measures import Floats

_MAX_ITERATIONS = 50


def fit_weights(loss: Callable[[Floats], tuple[float, Floats]], start: Floats) -> Floats:
    """The weights at which a loss is least (L-BFGS). `loss`: returns its value and its slope.

    One thread computes. With few weights, the threads of the linear algebra library have nothing
    to do but wait for each other: on busy cores, that took 50 times as long as the computation.
    Sums are also added in the same order on each machine.
    """
    from scipy.optimize import minimize

    options = {"maxiter": _MAX_ITERATIONS}
    with _linear_algebra_threads().limit(limits=1, user_api="blas"):
        fitted: Floats = minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x
    return fitted


@cache
def _linear_algebra_threads() -> Any:
    """The threads of the libraries that are loaded: SciPy's, once it has been imported."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
