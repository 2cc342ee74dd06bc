"""Inverted lists name the rows of each term."""

import numpy as np

from recall.similarity.segments.inverted_lists import build_postings


def test_inverted_lists_hold_rows_in_ascending_order() -> None:
    # Row 0: terms 1 and 0; row 1: no terms; row 2: term 1.
    starts = np.array([0, 2, 2, 3])
    terms = np.array([1, 0, 1], dtype=np.int32)
    counts = np.array([5, 6, 7], dtype=np.uint8)
    heads, docs, times = np.zeros(3, dtype=np.int64), np.empty(3, np.uint16), np.empty(3, np.uint8)
    build_postings(starts, terms, counts, 2, heads, docs, times)
    assert heads.tolist() == [0, 1, 3]
    assert docs.tolist() == [0, 0, 2]
    assert times.tolist() == [6, 5, 7]
