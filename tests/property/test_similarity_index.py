"""The corpus in chunks answers as the plain way over all events at once does, in whatever order they came in."""

import random
from datetime import timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recall.relevance.ready_contexts import AlertContext, find_similar
from recall.similarity.comparison import Comparison, restore_top
from recall.similarity.events import CorpusEvent
from recall.similarity.index import Index
from recall.similarity.measure import MEASURES


def _world(seed: int, count: int) -> list[CorpusEvent]:
    rng = random.Random(seed)
    words = [f"{'pq'[n % 2]}={n}" for n in range(8)]
    return [
        CorpusEvent(
            ts=rng.randrange(200) * 1_000_000,
            eid=f"{number:04}",
            sequence=0,
            term_counts={word: rng.randint(1, 3) for word in rng.sample(words, rng.randint(0, 5))},
        )
        for number in range(count)
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 40),
    st.lists(st.integers(0, 200), max_size=5),
    st.sampled_from(sorted(MEASURES)),
)
def test_over_chunks_equals_over_everything(
    seed: int, count: int, cuts: list[int], measure: str
) -> None:
    """Chunks cut anywhere, read newest first or oldest first, events in any order of arrival."""
    rng = random.Random(seed)
    world = _world(seed, count)
    ordered = sorted(world, key=lambda past: past.key)
    gap = rng.choice([0, 5])
    expected = {
        answer.query.event_id: [(past.event_id, score) for past, score in answer.hits]
        for answer in find_similar(
            [AlertContext(past.eid, "x", past.ts, past.term_counts) for past in ordered],
            timedelta(seconds=gap),
            5,
            MEASURES[measure],
        )
    }
    borders = sorted({cut * 1_000_000 for cut in cuts})
    index = Index()
    arriving = list(world)
    rng.shuffle(arriving)
    for number, past in enumerate(arriving, start=1):
        chunk = sum(border <= past.ts for border in borders)
        index.add(chunk, [CorpusEvent(past.ts, past.eid, number, past.term_counts)])
    for past in ordered:
        event = CorpusEvent(past.ts, past.eid, count, past.term_counts)
        newest = past.ts - gap * 1_000_000 + 1 if gap else past.ts
        one = Comparison(
            event, index.pin_counts(event), MEASURES[measure], restore_top(5, []), newest, count
        )
        edges: list[int | None] = [None, *borders, 1 << 60]
        pieces = list(pairwise(edges))
        rng.shuffle(pieces)
        for low, high in pieces:
            assert high is not None
            index.score([one], [(low, high)])
        assert [(hit.event[1], hit.score) for hit in one.top.hits] == [
            (eid, pytest.approx(score, abs=1e-9)) for eid, score in expected[past.eid]
        ]


def test_what_comes_later_does_not_change_a_pinned_answer() -> None:
    """E and C_k, and who is compared, are those of the corpus as it stood at the first history query."""
    index = Index()
    index.add(0, [CorpusEvent(1, "a", 1, {"x": 1, "y": 1}), CorpusEvent(2, "b", 2, {"y": 1})])
    event = CorpusEvent(10, "q", 2, {"x": 1, "z": 1})
    before = index.pin_counts(event)
    terms = np.arange(len(index.vocabulary), dtype=np.int32)
    held = before.document_frequencies(terms).tolist()
    index.add(0, [CorpusEvent(3, "c", 3, {"x": 1, "z": 1})])
    after = index.pin_counts(event)
    assert (before.event_count, held, held) == (
        after.event_count,
        before.document_frequencies(terms).tolist(),
        after.document_frequencies(terms).tolist(),
    )
    one = Comparison(event, after, MEASURES["tfidf"], restore_top(5, []), 10, 2)
    index.score([one], [(None, 10)])
    assert [hit.event[1] for hit in one.top.hits] == ["a"]


def test_an_event_counts_itself_once() -> None:
    index = Index()
    event = CorpusEvent(5, "q", 1, {"x": 1})
    assert index.pin_counts(event).event_count == 1
    index.add(0, [event])
    assert index.pin_counts(event).event_count == 1
