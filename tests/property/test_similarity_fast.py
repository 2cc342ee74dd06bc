"""The search of inverted lists finds what the formula finds, and its bounds are never exceeded."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archiver.time_range import TimeRange
from recall.similarity.comparison import Comparison, restore_top
from recall.similarity.events import CorpusEvent, EventKey
from recall.similarity.index import Index
from recall.similarity.measures import MEASURES, Measure
from recall.similarity.measures.corpus import ContextVectors
from recall.similarity.ranking import TopK
from tests.examples import examples

# The measures that are searched in inverted lists.
FAST_MEASURES = st.sampled_from([MEASURES["tfidf"], MEASURES["binary"]])
ALL_MEASURES = st.sampled_from([MEASURES[name] for name in sorted(MEASURES)])
END_OF_TIME = 1 << 60


def _draw_term_counts(rng: random.Random, width: int) -> dict[str, int]:
    """Some terms are frequent and some are rare."""
    numbers = {min(int(rng.paretovariate(0.6)), width) for _ in range(rng.randint(0, 8))}
    term_counts = {}
    for number in numbers:
        term_counts[f"{'tu'[number % 2]}={number}"] = rng.choice([1, 1, 1, 2, 300])
    return term_counts


def _draw_events(rng: random.Random, count: int, first_sequence: int) -> list[CorpusEvent]:
    """Some contexts occur repeatedly, so that scores tie."""
    contexts: list[dict[str, int]] = [{}]
    events = []
    for sequence in range(first_sequence, first_sequence + count):
        term_counts = rng.choice(contexts) if rng.random() < 0.3 else _draw_term_counts(rng, 50)
        contexts.append(term_counts)
        events.append(CorpusEvent(rng.randint(0, 10_000), f"e{sequence:06}", sequence, term_counts))
    return events


def _add_events(index: Index, events: list[CorpusEvent], borders: list[int]) -> None:
    """Add half of the events together and the others one by one."""
    half = len(events) // 2
    for part in [events[:half], *([event] for event in events[half:])]:
        parts_by_chunk: dict[int, list[CorpusEvent]] = {}
        for event in part:
            chunk = sum(border <= event.ts for border in borders)
            parts_by_chunk.setdefault(chunk, []).append(event)
        for chunk in sorted(parts_by_chunk):
            index.add(chunk, parts_by_chunk[chunk])


def _expected_hits(
    index: Index, events: list[CorpusEvent], comparison: Comparison, span: TimeRange
) -> list[tuple[EventKey, float]]:
    """The best hits by the formula, from all events."""
    past = span.intersect(TimeRange(None, comparison.before_ts))
    candidates = []
    for event in sorted(events, key=lambda event: event.key):
        if past.contains(event.ts) and event.sequence <= comparison.event.sequence:
            candidates.append(event)
    if not candidates:
        return []
    encode = index.vocabulary.encode
    rows = [encode(event.term_counts) for event in candidates]
    scores = comparison.measure.score_rows(
        encode(comparison.event.term_counts),
        ContextVectors(rows).oldest_rows(len(rows)),
        index.full_counts(comparison),
    )
    top: TopK[EventKey] = TopK(comparison.top.k)
    top.add([event.key for event in candidates], scores)
    return [(hit.event, hit.score) for hit in top.hits]


def _split_time(borders: list[int]) -> list[TimeRange]:
    return list(map(TimeRange, [None, *borders], [*borders, END_OF_TIME]))


def _draw_comparison(
    index: Index, rng: random.Random, sequence: int, measure: Measure, k: int = 3
) -> Comparison:
    event = CorpusEvent(rng.choice([5000, 20_000]), "q", sequence, _draw_term_counts(rng, 50))
    return Comparison(
        event=event,
        pinned_counts=index.pin_counts(event),
        measure=measure,
        top=restore_top(k, []),
        before_ts=event.ts,
        max_sequence=sequence,
    )


@examples(40)
@given(
    st.integers(0, 2**32),
    st.integers(1, 60),
    st.lists(st.integers(0, 10_000), max_size=4),
    FAST_MEASURES,
)
def test_search_finds_the_hits_of_the_formula_while_events_are_added(
    seed: int, count: int, cuts: list[int], measure: Measure
) -> None:
    """Bounds are built once, then updated. Chunks are searched in any order, for several events."""
    rng = random.Random(seed)
    borders = sorted(set(cuts))
    index, events = Index(), []
    for _ in range(3):
        new_events = _draw_events(rng, rng.randint(1, count), len(events) + 1)
        events += new_events
        _add_events(index, new_events, borders)
        comparisons = []
        for _ in range(3):
            sequence = rng.choice([len(events), len(events) // 2])
            comparisons.append(_draw_comparison(index, rng, sequence, measure))
        spans = _split_time(borders)
        rng.shuffle(spans)
        for span in spans:
            index.score(comparisons, [span] * len(comparisons))
        for comparison in comparisons:
            hits = [(hit.event, hit.score) for hit in comparison.top.hits]
            expected = _expected_hits(index, events, comparison, TimeRange(None, END_OF_TIME))
            assert hits == [(key, pytest.approx(score, abs=1e-9)) for key, score in expected]


@examples(40)
@given(
    st.integers(0, 2**32),
    st.integers(1, 40),
    st.lists(st.integers(0, 10_000), min_size=1, max_size=6),
    ALL_MEASURES,
)
def test_no_chunk_exceeds_its_bound(
    seed: int, count: int, cuts: list[int], measure: Measure
) -> None:
    """Also if events are added after the counts were pinned, and if they were pinned long ago."""
    rng = random.Random(seed)
    borders = sorted(set(cuts))
    index, events = Index(), []
    comparisons: list[Comparison] = []
    for _ in range(3):
        new_events = _draw_events(rng, rng.randint(1, count), len(events) + 1)
        events += new_events
        _add_events(index, new_events, borders)
        for sequence in (len(events), len(events) // 2):
            comparisons.append(_draw_comparison(index, rng, sequence, measure))
        for comparison in comparisons:
            spans = _split_time(borders)
            bounds = index.score_bounds(comparison, spans)
            for span, bound in zip(spans, bounds, strict=True):
                hits = _expected_hits(index, events, comparison, span)
                if hits:
                    assert hits[0][1] <= bound
