"""The journal of terms whose C_k has changed."""

import numpy as np

from recall.similarity.journal import Journal

FREQUENCIES = np.array([1.0, 10.0, 100.0, 0.0])


def _terms(*terms: int) -> np.ndarray:
    return np.array(terms, dtype=np.int32)


def test_changes_since_a_position_are_merged() -> None:
    journal = Journal()
    for terms in (_terms(0), _terms(2, 1), _terms(1, 3)):
        journal.record(terms)
    changed, logs = journal.since(1, FREQUENCIES)
    assert changed.tolist() == [1, 2, 3]
    assert logs.tolist() == [1, 2, 0]


def test_new_entry_is_included_in_the_next_result() -> None:
    journal = Journal()
    journal.record(_terms(1))
    assert journal.since(0, FREQUENCIES)[0].tolist() == [1]
    journal.record(_terms(2))
    assert journal.since(0, FREQUENCIES)[0].tolist() == [1, 2]


def test_cleared_journal_has_no_entries() -> None:
    journal = Journal()
    while not journal.is_full:
        journal.record(_terms(1))
    assert len(journal) == 1000
    journal.clear()
    assert len(journal) == 0
    journal.record(_terms(2))
    assert journal.since(0, FREQUENCIES)[0].tolist() == [2]
