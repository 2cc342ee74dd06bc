"""The search for candidates, among which a learned model ranks in a large corpus."""

import math
from functools import cache
from itertools import pairwise
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest

from archiver.time_range import TimeRange
from recall.learning import BuiltModel, LearnedScorer, TrainingEvent, build_model
from recall.requests import RecallEvent, SimilarQuestion
from recall.similarity import CorpusEvent, Index, SimilarState, comparison
from recall.similarity.candidates import BEST_COUNT, ESTIMATED_COUNT
from recall.similarity.store import IndexStore

HOUR = 3_600_000_000  # microseconds
COUNT = 4000
END = (COUNT + 2) * HOUR
TAGS = 20


def make_terms(rng: np.random.Generator, tag: int) -> dict[str, int]:
    """Many terms tell little, and one tells the tag most of the time."""
    terms = {f"word=w{int(rng.zipf(1.3)) % 300}": 1 for _ in range(12)}
    shown = tag if rng.random() < 0.8 else int(rng.integers(TAGS))
    return {**terms, f"msg=m{shown}-{int(rng.integers(3))}": 1, f"host=h{rng.integers(9)}": 1}


@cache
def make_corpus() -> tuple[list[CorpusEvent], BuiltModel]:
    rng = np.random.default_rng(3)
    events, training, tags = [], [], {}
    for number in range(1, COUNT + 1):
        tag = int(rng.integers(TAGS))
        terms = make_terms(rng, tag)
        eid = f"{number:08d}"
        events.append(CorpusEvent(number * HOUR, eid, number, terms))
        training.append(TrainingEvent(eid, number * HOUR, terms, f"h{number % 9}"))
        if number % 2:
            tags[eid] = f"tag {tag}"
    built = build_model(training, tags, HOUR)
    assert built is not None
    return events, built


def make_index() -> Index:
    events, _ = make_corpus()
    index = Index()
    for chunk in range(8):
        first = chunk * COUNT // 8
        index.add(chunk, events[first : first + COUNT // 8])
    return index


def begin(index: Index, seed: int, stored: bytes | None = None) -> SimilarState:
    rng = np.random.default_rng(1000 + seed)
    row = {}
    for term in make_terms(rng, seed % TAGS):
        attribute, value = term.split("=")
        row.setdefault(attribute, []).append(value)
    rows = [{name: value} for name, values in row.items() for value in values]
    question = SimilarQuestion(None, 1.0, "newest", ("c",), 10, "learned", HOUR)
    event = RecallEvent(UUID(int=seed + 1), (COUNT + 2) * HOUR, {"host": "h1"}, {})

    def make_scorer(new: CorpusEvent) -> LearnedScorer:
        return LearnedScorer(make_corpus()[1].model, new, "h1")

    return SimilarState.resume(index, question, event, COUNT, {"c": rows}, stored, make_scorer)


def compare_all(state: SimilarState, index: Index, span: TimeRange) -> None:
    state.record_pieces(1, COUNT)
    index.score([state.comparison], [span])


def best_of_all(seed: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hits if all events are ranked."""
    with monkeypatch.context() as patch:
        patch.setattr(comparison, "RANK_ALL_EVENTS", COUNT + 1)
        index = make_index()
        state = begin(index, seed)
        compare_all(state, index, TimeRange(None, END))
    answer = state.build_answer(index)
    assert "candidates" not in answer[0]["corpus"]
    return [hit["past_eid"] for hit in answer]


@pytest.fixture(autouse=True)
def _large_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison, "RANK_ALL_EVENTS", COUNT // 2)


@pytest.mark.slow
def test_best_of_all_events_are_among_the_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    index = make_index()
    found = total = 0
    for seed in range(40):
        state = begin(index, seed)
        compare_all(state, index, TimeRange(None, END))
        answer = state.build_answer(index)
        assert ESTIMATED_COUNT <= answer[0]["corpus"]["candidates"] <= ESTIMATED_COUNT + BEST_COUNT
        hits = {hit["past_eid"] for hit in answer}
        expected = best_of_all(seed, monkeypatch)
        found += len(hits.intersection(expected))
        total += len(expected)
    assert found / total >= 0.99


def test_answer_does_not_depend_on_the_division_into_pieces_or_on_a_restart() -> None:
    index = make_index()
    for seed in range(5):
        whole = begin(index, seed)
        compare_all(whole, index, TimeRange(None, END))
        parts = begin(index, seed)
        ends = [0, END // 5, END // 2, END // 5 * 4, END]
        for low, high in reversed(list(pairwise(ends))):
            compare_all(parts, index, TimeRange(low, high))
            parts = begin(index, seed, parts.dump())
        compare_all(parts, index, TimeRange(0, 1))
        answers = [whole.build_answer(index), parts.build_answer(index)]
        for answer in answers:
            for hit in answer:
                del hit["corpus"]["seen"]
        assert answers[0] == answers[1]


def test_pieces_that_cannot_hold_candidates_do_not_change_the_answer() -> None:
    index = make_index()
    # A chunk whose events share only a common word.
    old = [CorpusEvent(n, f"x{n}", COUNT + n, {"word=w1": 1, f"own=o{n}": 1}) for n in range(1, 11)]
    index.add(9, old)
    for seed in range(10):
        state = begin(index, seed)
        compare_all(state, index, TimeRange(HOUR, END))
        before = state.top.hits
        hopeful = state.count_hopeful_pieces(index, [TimeRange(None, HOUR)])
        state.record_pieces(1, COUNT + 10)
        index.score([state.comparison], [TimeRange(None, HOUR)])
        assert hopeful == 0
        assert state.top.hits == before
        assert state.count_hopeful_pieces(index, [TimeRange(HOUR, END)]) > 0


def test_compiled_and_exhaustive_search_find_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    index = make_index()
    for seed in range(5):
        compiled = begin(index, seed)
        compare_all(compiled, index, TimeRange(None, END))
        with monkeypatch.context() as patch:
            patch.setattr(Index, "_candidate_query", lambda *_: None)
            exhaustive = begin(index, seed)
            compare_all(exhaustive, index, TimeRange(None, END))
        for one, other in zip(compiled.top.hits, exhaustive.top.hits, strict=True):
            assert one.event == other.event
            assert math.isclose(one.score, other.score, abs_tol=1e-9)


def test_equal_scores_do_not_change_which_events_are_candidates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More events score the same than bounds can tell apart."""
    index = make_index()
    rng = np.random.default_rng(1000)
    terms = make_terms(rng, 0)
    index.add(9, [CorpusEvent(n, f"x{n:04}", n, terms) for n in range(1, 401)])
    for seed in range(2):
        found = begin(index, seed)
        compare_all(found, index, TimeRange(None, END))
        with monkeypatch.context() as patch:
            patch.setattr(Index, "_candidate_query", lambda *_: None)
            expected = begin(index, seed)
            compare_all(expected, index, TimeRange(None, END))
        assert found.top.hits == expected.top.hits
        for state in (found, expected):
            assert state.comparison.candidates is not None
        ids = [
            [row[:2] for row in state.comparison.candidates.to_json()["best"]]
            for state in (found, expected)
            if state.comparison.candidates is not None
        ]
        assert ids[0] == ids[1]
        assert any(eid.startswith("x") for _, eid in ids[0]) == (seed == 0)


@pytest.mark.parametrize("held", [(), (0, 5)])
def test_released_chunks_have_the_same_candidates(tmp_path: Path, held: tuple[int, ...]) -> None:
    store = IndexStore.for_corpus(tmp_path, "group/rule", "v1", ())
    whole = make_index()
    store.save(whole, COUNT, now=0)
    partial = store.load({}, held)
    assert partial is not None
    for seed in range(4):
        answers = []
        for index in (whole, partial):
            state = begin(index, seed)
            spans = [TimeRange(END * n // 8, END * (n + 1) // 8) for n in range(8)]
            hopeful = state.count_hopeful_pieces(index, spans)
            assert hopeful > 0
            for span in reversed(spans):
                compare_all(state, index, span)
            answers.append((state.top.hits, state.build_answer(index), state.dump()))
        assert answers[0] == answers[1]
    partial.release_unheld()
    assert {s.chunk for s in partial.segments if not s.is_released} == set(held)
