"""The compiled functions that can be tested by themselves. The search is tested by property."""

import math

import numpy as np
import pytest

from recall.similarity.segments import kernel


@pytest.mark.parametrize(("term", "position"), [(3, 0), (7, 1), (9, 2), (1, -1), (8, -1), (10, -1)])
def test_term_is_found_by_its_position(term: int, position: int) -> None:
    assert kernel.find_term(np.array([3, 7, 9], dtype=np.int32), term) == position


@pytest.mark.parametrize("log_event_count", [2.0, 2.3, 4.0])
def test_inverse_norm_bound_is_at_least_the_inverse_norm(log_event_count: float) -> None:
    tf = np.array([1.0, 2.0, 3.0])
    logs = np.array([0.0, 1.0, 2.0])
    sums = np.sum(tf**2), np.sum(tf**2 * logs), np.sum(tf**2 * logs**2)
    norm = math.sqrt(np.sum((tf * (log_event_count - logs)) ** 2))
    bound = kernel.inverse_norm_bound(log_event_count, *sums)
    assert 1 / norm <= bound < 1.1 / norm


def test_inverse_norm_bound_of_weightless_terms_is_infinite() -> None:
    assert kernel.inverse_norm_bound(1.0, 4.0, 4.0, 4.0) == math.inf
