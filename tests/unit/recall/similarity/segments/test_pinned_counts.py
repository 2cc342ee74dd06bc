"""Pinned E and C_k, and weighted queries."""

import math

import numpy as np
import pytest

from recall.similarity.measures.corpus import ContextVector
from recall.similarity.segments.pinned_counts import PinnedCounts

# E = 100. C_k of terms 0 to 4: 10, 100, 1 (changed from 0), 4 (changed from 5), 3 (beyond the end).
COUNTS = PinnedCounts(
    event_count=100,
    base_frequencies=np.array([10.0, 100.0, 0.0, 5.0]),
    changed_terms=np.array([2, 3, 4], dtype=np.int32),
    frequency_changes=np.array([1.0, -1.0, 3.0]),
    newest_ts=None,
)


def _context(counts_by_term: dict[int, float]) -> ContextVector:
    terms = np.array(list(counts_by_term), dtype=np.int32)
    return ContextVector(terms, np.array(list(counts_by_term.values())))


def test_document_frequencies_include_changes_and_are_at_least_one() -> None:
    terms = np.array([0, 1, 2, 3, 4, 5], dtype=np.int32)
    assert COUNTS.document_frequencies(terms).tolist() == [10, 100, 1, 4, 3, 1]


def test_weighted_query_has_the_rarest_term_first_and_no_weightless_term() -> None:
    query = COUNTS.weighted_query(_context({0: 2.0, 1: 1.0, 2: 1.0}))
    assert query.terms.tolist() == [2, 0]
    assert query.weights.tolist() == [2.0, 2.0]  # tf · idf
    assert query.gains.tolist() == [4.0, 2.0]  # tf · idf²
    assert query.log_frequencies.tolist() == [0.0, 1.0]
    assert query.norm == pytest.approx(math.sqrt(8))


def test_set_query_weights_every_term_equally() -> None:
    query = COUNTS.set_query(_context({0: 2.0, 1: 7.0, 2: 1.0}))
    assert query.is_set
    assert query.terms.tolist() == [2, 0, 1]
    assert query.weights.tolist() == query.gains.tolist() == [1, 1, 1]
    assert query.norm == pytest.approx(math.sqrt(3))
