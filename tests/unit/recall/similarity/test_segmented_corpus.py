"""An index that holds only some of its chunks in memory answers as one that holds all."""

import random
from collections.abc import Collection
from pathlib import Path

import pytest

from archiver.time_range import TimeRange
from recall.similarity.comparison import Comparison, restore_top
from recall.similarity.events import CorpusEvent
from recall.similarity.index import Index
from recall.similarity.measures import MEASURES
from recall.similarity.store import IndexStore

CHUNK_LENGTH = 1000
CHUNKS = 4


def _draw_event(rng: random.Random, ts: int, sequence: int) -> CorpusEvent:
    term_counts = {}
    for _ in range(6):
        term = min(int(rng.paretovariate(0.6)), 60)
        term_counts[f"{'tu'[term % 2]}={term}"] = rng.choice([1, 2, 300])
    return CorpusEvent(ts, f"e{sequence:05}", sequence, term_counts, {0: [rng.random() * 10]})


def _add_chunks(index: Index, rng: random.Random, events_per_chunk: int) -> None:
    for chunk in range(CHUNKS):
        events = []
        for _ in range(events_per_chunk):
            ts = chunk * CHUNK_LENGTH + rng.randrange(CHUNK_LENGTH)
            events.append(_draw_event(rng, ts, index.last_sequence + 1 + len(events)))
        index.add(chunk, events)


def _compare(index: Index, event: CorpusEvent, measure: str) -> Comparison:
    comparison = Comparison(
        event=event,
        pinned_counts=index.pin_counts(event),
        measure=MEASURES[measure],
        top=restore_top(5, []),
        before_ts=event.ts,
        max_sequence=event.sequence,
    )
    spans = [TimeRange(n * CHUNK_LENGTH, (n + 1) * CHUNK_LENGTH) for n in range(CHUNKS)]
    index.score_bounds(comparison, spans)
    for span in reversed(spans):
        index.score([comparison], [span])
    return comparison


@pytest.mark.parametrize("held", [(), (1,), (0, 3)])
@pytest.mark.parametrize("numeric", [{}, {"n": None}])
def test_released_chunks_are_compared_alike(
    tmp_path: Path, held: Collection[int], numeric: dict[str, float | None]
) -> None:
    rng = random.Random(len(held))
    store = IndexStore.for_corpus(tmp_path, "group/rule", "v1", ())
    whole = Index(numeric)
    _add_chunks(whole, rng, 40)
    store.save(whole, whole.last_sequence, now=0)
    partial = store.load(numeric, held)
    assert partial is not None
    for round_number in range(3):
        for measure in ("tfidf", "binary", "attributes"):
            # The last one is older than some events of the corpus.
            for ts in (10_000, 2_500):
                event = _draw_event(rng, ts, whole.last_sequence)
                expected = _compare(whole, event, measure)
                seen = _compare(partial, event, measure)
                assert seen.top.hits == expected.top.hits
                assert seen.top.hits
                partial.release_unheld()
                released = {s.chunk for s in partial.segments if s.is_released}
                assert released == set(range(CHUNKS)) - set(held)
        # New events are in memory until they are saved.
        for index in (whole, partial):
            added = random.Random(round_number)
            sequence = whole.last_sequence + 1 if index is whole else partial.last_sequence + 1
            index.add(round_number, [_draw_event(added, round_number * 1000 + 5, sequence)])


def test_saved_segments_are_released_and_held_again(tmp_path: Path) -> None:
    store = IndexStore.for_corpus(tmp_path, "group/rule", "v1", ())
    index = Index()
    _add_chunks(index, random.Random(1), 30)
    index.hold({2}, store.open_stored)
    assert not any(segment.is_released for segment in index.segments)
    sizes = index.chunk_bytes()
    store.save(index, index.last_sequence, now=0)
    index.release_unheld()
    assert [s.chunk for s in index.segments if not s.is_released] == [2]
    assert index.chunk_bytes().keys() == sizes.keys()
    index.hold(None, store.open_stored)
    event = _draw_event(random.Random(2), 10_000, index.last_sequence)
    _compare(index, event, "tfidf")
    assert not any(segment.is_released for segment in index.segments)
