"""If no unread piece of history can change an answer, reading all of them does not.

By every measure, and by learned models with their mixtures; compared with the scores of all events.
"""

import random
from functools import cache
from itertools import pairwise
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.time_range import TimeRange
from recall.learning import BuiltModel, LearnedScorer, TrainingEvent, build_model
from recall.requests import RecallEvent, SimilarQuestion
from recall.similarity import (
    CorpusEvent,
    Index,
    SimilarState,
    candidate_search,
    candidates,
    comparison,
)
from recall.similarity.measures import LEARNED_MEASURE, MEASURES, ContextVectors
from recall.similarity.ranking import TopK
from recall.similarity.segments import RowsOfSegment
from tests.examples import examples

HOUR = 3_600_000_000  # microseconds
COUNT = 90
PERIOD = 15  # events in which the same causes occur
CAUSES = ("disk", "cpu", "net", "leak", "cert", "dns")
NOW = COUNT * HOUR
_MEASURES = st.sampled_from([*sorted(MEASURES), LEARNED_MEASURE])


@cache
def _make_past(seed: int) -> list[TrainingEvent]:
    """Events an hour apart. Each period has causes, and thereby terms, that others have not."""
    rng = random.Random(seed)
    events = []
    for number in range(COUNT):
        period = number // PERIOD
        cause = CAUSES[(period + rng.randint(0, 1)) % len(CAUSES)]
        terms = {f"msg={cause}": rng.choice([1, 1, 5]), f"noise={period}-{rng.randint(0, 3)}": 1}
        if rng.random() < 0.3:
            terms[f"host=n{rng.randint(0, 4)}"] = 1
        events.append(TrainingEvent(f"{number:08d}", number * HOUR, terms, f"n{number % 3}"))
    return events


@cache
def _build_past_model(seed: int, size: int) -> BuiltModel:
    """A model of the first events; one in five has another tag than its cause."""
    rng = random.Random(seed + 1)
    events = _make_past(seed)[:size]
    tags = {}
    for event in events:
        cause = next(term for term in event.term_counts if term.startswith("msg="))
        tags[event.event_id] = cause if rng.random() < 0.8 else rng.choice(CAUSES)
    built = build_model(events, tags, HOUR)
    assert built is not None
    return built


def _make_index(events: list[TrainingEvent], borders: list[int]) -> tuple[Index, list[TimeRange]]:
    """An index with one chunk for each piece of history, and the pieces."""
    limits = [0, *borders, len(events)]
    index = Index()
    for chunk, (low, high) in enumerate(pairwise(limits)):
        part = events[low:high]
        if part:
            index.add(
                chunk,
                [
                    CorpusEvent(event.ts, event.event_id, low + number, event.term_counts)
                    for number, event in enumerate(part, start=1)
                ],
            )
    times = [None, *(border * HOUR for border in borders), NOW]
    return index, list(map(TimeRange, times, times[1:]))


def _start(
    index: Index, measure: str, terms: dict[str, str], k: int, model: BuiltModel
) -> SimilarState:
    question = SimilarQuestion(None, 1.0, "newest", ("c",), k, measure, HOUR)
    event = RecallEvent(UUID(int=1), NOW, {"host": "n1"}, {})

    def make_scorer(event: CorpusEvent) -> LearnedScorer:
        return LearnedScorer(model.model, event, "n1")

    return SimilarState.resume(
        index,
        question,
        event,
        COUNT,
        {"c": [terms]},
        None,
        make_scorer if measure == LEARNED_MEASURE else None,
    )


def _read(state: SimilarState, index: Index, piece: TimeRange) -> None:
    state.record_pieces(1, COUNT)
    index.score([state.comparison], [piece])


def _score_all(
    state: SimilarState, index: Index, events: list[TrainingEvent]
) -> list[tuple[tuple[int, str], float]]:
    """The best hits among all events that are old enough, each of them scored."""
    query = index.vocabulary.encode(state.comparison.event.term_counts)
    counts = index.full_counts(state.comparison)
    scorer = state.comparison.scorer
    if scorer is None:
        rows = ContextVectors([index.vocabulary.encode(event.term_counts) for event in events])
        scores = state.comparison.measure.score_rows(query, rows.oldest_rows(len(events)), counts)
    else:
        parts = [
            RowsOfSegment(segment, np.arange(len(segment.arrays["ts"])))
            for segment in index.segments
        ]
        scores = scorer.score_rows(query, counts, parts).scores
        eids = np.concatenate([segment.arrays["eids"] for segment in index.segments])
        score_by_id = {eid.decode(): score for eid, score in zip(eids, scores, strict=True)}
        scores = np.array([score_by_id[event.event_id] for event in events])
    top: TopK[tuple[int, str]] = TopK(state.top.k)
    old = [number for number, event in enumerate(events) if event.ts < state.comparison.before_ts]
    top.add([(events[number].ts, events[number].event_id) for number in old], scores[old])
    return [(hit.event, hit.score) for hit in top.hits]


def _hits(state: SimilarState) -> list[Any]:
    return [(hit.event, pytest.approx(hit.score, abs=1e-9)) for hit in state.top.hits]


# Of the past, the model, the borders of pieces, the number of hits, and what else is drawn.
_CASES = (
    st.integers(0, 1),
    st.sampled_from([5, COUNT]),
    st.sets(st.integers(1, COUNT - 1), max_size=6),
    st.integers(1, 12),
    st.randoms(use_true_random=False),
)


def _draw_terms(rng: random.Random) -> dict[str, str]:
    terms = {"msg": rng.choice([*CAUSES, "never seen"])}
    if rng.random() < 0.5:
        terms["host"] = f"n{rng.randint(0, 4)}"
    if rng.random() < 0.3:
        terms["noise"] = f"{rng.randint(0, 5)}-{rng.randint(0, 3)}"
    return terms


@examples(80)
@given(_MEASURES, *_CASES)
def test_answer_is_that_of_scoring_everything_once_no_unread_piece_can_change_it(
    measure: str, seed: int, size: int, cuts: set[int], k: int, rng: random.Random
) -> None:
    events = _make_past(seed)
    index, pieces = _make_index(events, sorted(cuts))
    state = _start(index, measure, _draw_terms(rng), k, _build_past_model(seed, size))
    expected = _score_all(state, index, events)
    rng.shuffle(pieces)
    for number, piece in enumerate(pieces):
        unread = pieces[number:]
        without_matches = state.pieces_without_matches(unread)
        assert state.count_hopeful_pieces(index, unread) <= without_matches.count(False)
        if state.count_hopeful_pieces(index, unread) == 0:
            assert expected == _hits(state)
        _read(state, index, piece)
    assert state.count_hopeful_pieces(index, []) == 0
    assert expected == _hits(state)


@examples(60)
@given(*_CASES)
def test_answer_among_candidates_is_final_once_no_unread_piece_can_hold_one(
    seed: int, size: int, cuts: set[int], k: int, rng: random.Random
) -> None:
    """As in a large corpus, where the learned measure ranks candidates."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "RANK_ALL_EVENTS", 0)
        patch.setattr(candidates, "BEST_COUNT", 4)
        patch.setattr(candidates, "ESTIMATED_COUNT", 6)
        index, pieces = _make_index(_make_past(seed), sorted(cuts))
        terms, model = _draw_terms(rng), _build_past_model(seed, size)
        state = _start(index, LEARNED_MEASURE, terms, k, model)
        whole = _start(index, LEARNED_MEASURE, terms, k, model)
        _read(whole, index, TimeRange(None, NOW))
        rng.shuffle(pieces)
        for number, piece in enumerate(pieces):
            if state.count_hopeful_pieces(index, pieces[number:]) == 0:
                assert _hits(whole) == [(hit.event, hit.score) for hit in state.top.hits]
            _read(state, index, piece)
        assert _hits(whole) == [(hit.event, hit.score) for hit in state.top.hits]


@examples(40)
@given(*_CASES, st.tuples(*[st.floats(0, 9)] * 4))
def test_best_candidates_are_the_best_of_all_where_tags_weigh_much(
    seed: int,
    size: int,
    cuts: set[int],
    k: int,
    rng: random.Random,
    weights: tuple[float, float, float, float],
) -> None:
    """Exactly so if all events are resolved, and terms weigh by TF-IDF alone."""
    events = _make_past(seed)
    # Each event is an episode of its own: the tags of one that lasts still are not known yet.
    built = build_model(events, {e.event_id: f"{rng.randint(0, 5)}" for e in events}, gap=0)
    assert built is not None and built.resolutions == len(events)
    built.model.model.pair_model.weights = np.array([0, 1 + weights[0], 0, *weights[1:]])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(comparison, "RANK_ALL_EVENTS", 0)
        patch.setattr(candidates, "BEST_COUNT", 1)
        patch.setattr(candidates, "ESTIMATED_COUNT", 12)
        patch.setattr(candidate_search, "_MAX_ESTIMATED_ROWS", 13)
        index, pieces = _make_index(events, sorted(cuts))
        state = _start(index, LEARNED_MEASURE, _draw_terms(rng), k, built)
        assert state.comparison.candidates is not None
        for piece in pieces:
            _read(state, index, piece)
    scored = _score_all(state, index, events)
    shown = [(hit.event, hit.score) for hit in state.top.hits]
    assert [score for _, score in shown] == pytest.approx([score for _, score in scored], abs=1e-4)
    assert state.comparison.candidates.count() <= 13


def test_some_pieces_are_left_unread() -> None:
    """The statement is made in these worlds, so that the tests above test it."""
    events = _make_past(0)
    index, pieces = _make_index(events, list(range(PERIOD, COUNT, PERIOD)))
    for measure in (*sorted(MEASURES), LEARNED_MEASURE):
        state = _start(index, measure, {"msg": "leak"}, 3, _build_past_model(0, COUNT))
        assert 0 < state.count_hopeful_pieces(index, pieces) < len(pieces)
