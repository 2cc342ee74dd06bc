"""Fits a few weights by minimising a smooth loss. No I/O."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from recall.similarity.measures import Floats

_MAX_ITERATIONS = 50
# Newton's method ends when no weight changes by more.
_MIN_STEP = 1e-6
# The standard deviation of the weights of a logistic regression before anything is known.
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
    prior_deviations: Floats | float = _WEIGHT_DEVIATION,
) -> Floats:
    """The weights of a logistic regression; `prior`: their means before anything is known.

    `case_weights`: how much each case counts; None: each counts 1. `start`: weights that are probably
    near; None: `prior`. `prior_deviations`: standard deviations of the weights. By Newton's method:
    with a few weights, it takes much less time than L-BFGS.
    """
    rows, labels = np.array(features), np.array(outcomes, dtype=float)
    counts = np.ones(len(labels)) if case_weights is None else np.array(case_weights)
    precisions = np.broadcast_to(1 / np.square(prior_deviations), prior.shape)

    def loss(weights: Floats) -> float:
        logits = rows @ weights
        value = counts @ (np.logaddexp(0, logits) - labels * logits)
        return float(value + 0.5 * precisions @ (weights - prior) ** 2)

    weights: Floats = prior if start is None else start
    value = loss(weights)
    for _ in range(_MAX_ITERATIONS):
        chances = sigmoid(rows @ weights)
        slope = rows.T @ (counts * (chances - labels)) + precisions * (weights - prior)
        curvature = (rows.T * (counts * chances * (1 - chances))) @ rows + np.diag(precisions)
        step = np.linalg.solve(curvature, slope)
        new_value = loss(weights - step)
        while new_value > value and np.abs(step).max() > _MIN_STEP:
            step = step / 2
            new_value = loss(weights - step)
        if np.abs(step).max() <= _MIN_STEP:
            break
        weights, value = weights - step, new_value
    return weights


def sigmoid(logits: Any) -> Any:
    """The logistic function, without overflow."""
    return 1 / (1 + np.exp(-np.clip(logits, -_MAX_LOGIT, _MAX_LOGIT)))
