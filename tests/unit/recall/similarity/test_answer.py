"""The state of a similarity recall: stored, resumed, and as an answer."""

from typing import Any
from uuid import UUID

import orjson
import pytest

from archiver.time_range import TimeRange
from recall.requests import RecallEvent, SimilarQuestion
from recall.similarity.answer import (
    SimilarState,
    compare,
)
from recall.similarity.events import make_corpus_event
from recall.similarity.index import Index

# One piece of history for each chunk.
PIECES = [TimeRange(None, 10), TimeRange(10, 20), TimeRange(20, 30)]
EVENT = RecallEvent(UUID(int=9), 30, {}, {})
EVENT_ID = str(EVENT.eid)


def _contexts(**values: str | None) -> dict[str, Any]:
    return {"own": [values]}


@pytest.fixture(name="index")
def _index() -> Index:
    """Two events in the first chunk, one in each of the others; the last shares no term."""
    index = Index({"cpu": 5.0})
    rows = [
        (1, _contexts(host="n1", cpu="50")),
        (5, _contexts(host="n2", cpu="90")),
        (15, _contexts(host="n1", cpu="70")),
        (25, _contexts(host="n9")),
    ]
    for sequence, (ts, contexts) in enumerate(rows, start=1):
        event = make_corpus_event(ts, f"e{sequence}", sequence, contexts, ["own"], index.numeric)
        index.add(ts // 10, [event])
    return index


def _resume(index: Index, stored: bytes | None = None, **options: Any) -> SimilarState:
    question = SimilarQuestion(
        range=None,
        every=1.0,
        order="newest",
        feedback=None,
        contexts=("own",),
        measure="tfidf",
        **{"k": 2, "gap": 0, **options},
    )
    return SimilarState.resume(index, question, EVENT, 4, _contexts(host="n1", cpu="50"), stored)


def test_answer_explains_scores_by_terms_and_numbers(index: Index) -> None:
    state = _resume(index)
    for piece in PIECES:
        compare(index, [state], [[piece]])
    first, second = state.build_answer(index)
    assert (first["rank"], first["past_eid"], first["past_ts"]) == (1, "e1", 1)
    assert first["score"] == pytest.approx(1)
    assert [label for label, _ in first["shared"]] == ["cpu=50~50", "host=n1"]
    assert sum(share for _, share in first["shared"]) == pytest.approx(1)
    assert first["corpus"] == {"events": 5, "newest": 30, "number": 4, "seen": [(3, 4)]}
    assert second["past_eid"] == "e3"


def test_resumed_comparison_continues_with_the_same_answer(index: Index) -> None:
    state = _resume(index)
    compare(index, [state], [[PIECES[0]]])
    resumed = _resume(index, state.dump())
    for piece in PIECES[1:]:
        compare(index, [state], [[piece]])
        compare(index, [resumed], [[piece]])
    assert resumed.dump() == state.dump()
    assert resumed.build_answer(index) == state.build_answer(index)


def test_stored_state_keeps_its_format(index: Index) -> None:
    state = _resume(index, k=1)
    compare(index, [state], [[PIECES[0]]])
    stored = orjson.loads(state.dump())
    ((ts, eid, score),) = stored["hits"]
    assert (ts, eid, score) == (1, "e1", pytest.approx(1))
    assert stored == {"hits": stored["hits"], "seen": [[1, 4]]}


def test_compared_events_and_changes_are_returned(index: Index) -> None:
    state = _resume(index, k=1)
    assert compare(index, [state], [[PIECES[0]]]) == [(2, True)]
    assert compare(index, [state], [[PIECES[2]]]) == [(1, False)]


def test_events_within_the_gap_are_not_compared(index: Index) -> None:
    state = _resume(index, gap=15)
    assert compare(index, [state], [[PIECES[1]]]) == [(1, True)]
    state = _resume(index, gap=16)
    assert compare(index, [state], [[PIECES[1]]]) == [(0, False)]


def test_later_events_are_candidates_and_start_a_new_run(index: Index) -> None:
    state = _resume(index)
    compare(index, [state], [[PIECES[0]]])
    late = make_corpus_event(16, "late", 5, _contexts(host="n1", cpu="50"), ["own"], index.numeric)
    index.add(1, [late])
    compare(index, [state], [[PIECES[1]]])
    assert state.seen_runs == [(1, 4), (1, 5)]
    assert [hit.event for hit in state.top.hits] == [(16, "late"), (1, "e1")]


def test_skipped_pieces_are_recorded_with_the_pinned_sequence(index: Index) -> None:
    state = _resume(index)
    state.skip_pieces(0)
    assert state.seen_runs == []
    state.skip_pieces(2)
    assert state.seen_runs == [(2, 4)]


def test_piece_without_shared_terms_has_no_matches(index: Index) -> None:
    assert _resume(index).pieces_without_matches(PIECES) == [False, False, True]


def test_piece_is_hopeful_until_its_bound_is_below_the_kth_score(index: Index) -> None:
    state = _resume(index, k=1)
    assert state.count_hopeful_pieces(index, PIECES) == 2
    compare(index, [state], [[PIECES[0]]])
    assert state.count_hopeful_pieces(index, [PIECES[2]]) == 0
