"""The candidates so far: which are kept, and their state."""

import numpy as np
import pytest

from recall.similarity import candidates as module
from recall.similarity.candidates import CandidateRows, Candidates
from recall.similarity.comparison import restore_top


def make_rows(*rows: tuple[int, float, float]) -> CandidateRows:
    """Rows from (time, score, final score)."""
    return CandidateRows.from_json([(ts, f"e{ts}", score, final) for ts, score, final in rows])


@pytest.fixture(autouse=True)
def _small_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BEST_COUNT", 2)
    monkeypatch.setattr(module, "ESTIMATED_COUNT", 3)


def test_events_of_both_kinds_are_ranked_by_their_final_scores_each_once() -> None:
    candidates = Candidates(2)
    assert (candidates.min_score, candidates.min_estimate) == (0.0, -np.inf)
    candidates.add_best(make_rows((1, 0.5, 0.1), (2, 0.4, 0.2), (3, 0.3, 0.9)))
    candidates.add_estimated(make_rows((2, -1, 0.2), (4, -2, 0.3), (5, -3, 0), (6, -4, 0.8)))
    assert (candidates.min_score, candidates.min_estimate) == (0.4, -3)
    assert candidates.count() == 4
    top = restore_top(2, [])
    assert candidates.update_top(top)
    assert [(hit.event, hit.score) for hit in top.hits] == [((4, "e4"), 0.3), ((2, "e2"), 0.2)]
    assert not candidates.update_top(top)


def test_event_that_is_added_again_takes_no_room() -> None:
    candidates = Candidates(2)
    for rows in (make_rows((1, 0.5, 0.1)), make_rows((1, 0.5, 0.1), (2, 0.5, 0.2))):
        candidates.add_best(rows)
    assert [row[0] for row in candidates.to_json()["best"]] == [2, 1]


def test_state_is_restored() -> None:
    candidates = Candidates(2)
    candidates.add_best(make_rows((1, 0.5, 0.1)))
    candidates.add_estimated(make_rows((4, -2, 0.3)))
    restored = Candidates(2)
    restored.restore(candidates.to_json())
    assert restored.to_json() == candidates.to_json()
    assert restored.count() == 2
