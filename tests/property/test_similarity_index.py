"""The index answers like a comparison with all events at once, in any order of arrival."""

import random
from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.time_range import TimeRange
from recall.relevance.rankers.ready_contexts import AlertContext, find_similar
from recall.similarity.comparison import Comparison, restore_top
from recall.similarity.events import CorpusEvent
from recall.similarity.index import Index
from recall.similarity.measures import MEASURES
from tests.examples import examples

SECOND = 1_000_000  # microseconds


def _make_events(seed: int, count: int) -> list[CorpusEvent]:
    rng = random.Random(seed)
    terms = [f"{'pq'[number % 2]}={number}" for number in range(8)]
    events = []
    for number in range(count):
        ts = rng.randrange(200) * SECOND
        chosen_terms = rng.sample(terms, rng.randint(0, 5))
        term_counts = {term: rng.randint(1, 3) for term in chosen_terms}
        events.append(CorpusEvent(ts, f"{number:04}", 0, term_counts))
    return events


@examples(60)
@given(
    st.integers(0, 2**32),
    st.integers(1, 40),
    st.lists(st.integers(0, 200), max_size=5),
    st.sampled_from(sorted(MEASURES)),
)
def test_hits_do_not_depend_on_chunks_and_order(
    seed: int, count: int, border_seconds: list[int], measure: str
) -> None:
    """Chunks are cut anywhere and compared in any order; events arrive in any order."""
    rng = random.Random(seed)
    events = _make_events(seed, count)
    ordered = sorted(events, key=lambda event: event.key)
    gap = rng.choice([0, 5])
    alerts = [AlertContext(event.eid, "x", event.ts, event.term_counts) for event in ordered]
    expected = {}
    for answer in find_similar(alerts, timedelta(seconds=gap), 5, MEASURES[measure]):
        hits = [(past.event_id, pytest.approx(score, abs=1e-9)) for past, score in answer.hits]
        expected[answer.query.event_id] = hits
    borders = sorted({border * SECOND for border in border_seconds})
    index = Index()
    arriving = list(events)
    rng.shuffle(arriving)
    for sequence, event in enumerate(arriving, start=1):
        chunk = sum(border <= event.ts for border in borders)
        index.add(chunk, [CorpusEvent(event.ts, event.eid, sequence, event.term_counts)])
    for event in ordered:
        query = CorpusEvent(event.ts, event.eid, count, event.term_counts)
        comparison = Comparison(
            event=query,
            pinned_counts=index.pin_counts(query),
            measure=MEASURES[measure],
            top=restore_top(5, []),
            before_ts=event.ts - gap * SECOND + 1 if gap else event.ts,
            max_sequence=count,
        )
        edges: list[int | None] = [None, *borders, 1 << 60]
        spans = list(pairwise(edges))
        rng.shuffle(spans)
        for low, high in spans:
            assert high is not None
            index.score([comparison], [TimeRange(low, high)])
        hits = [(hit.event[1], hit.score) for hit in comparison.top.hits]
        assert hits == expected[event.eid]
