"""Fits a few weights by minimising a smooth loss. No I/O."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from recall.similarity.measures import Floats

_MAX_ITERATIONS = 50
# The standard deviation of the weights of a logistic regression.
_WEIGHT_DEVIATION = 1.0
_MAX_LOGIT = 30.0


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


def fit_logistic(
    features: Sequence[Floats] | Floats,
    outcomes: npt.ArrayLike,
    prior: Floats,
    case_weights: npt.ArrayLike | None = None,
    start: Floats | None = None,
) -> Floats:
    """The weights of a logistic regression; `prior`: their means before anything is known.

    `case_weights`: how much each case counts; None: each counts 1. `start`: weights that are probably
    near; None: `prior`.
    """
    rows, labels = np.array(features), np.array(outcomes, dtype=float)
    counts = np.ones(len(labels))
    if case_weights is not None:
        counts = np.array(case_weights)

    def loss(weights: Floats) -> tuple[float, Floats]:
        logits = rows @ weights
        deviations = (weights - prior) / _WEIGHT_DEVIATION
        value = counts @ (np.logaddexp(0, logits) - labels * logits)
        value += 0.5 * (deviations**2).sum()
        slope = rows.T @ (counts * (sigmoid(logits) - labels)) + deviations / _WEIGHT_DEVIATION
        return float(value), slope

    return fit_weights(loss, prior if start is None else start)


def sigmoid(logits: Any) -> Any:
    """The logistic function, without overflow."""
    return 1 / (1 + np.exp(-np.clip(logits, -_MAX_LOGIT, _MAX_LOGIT)))
