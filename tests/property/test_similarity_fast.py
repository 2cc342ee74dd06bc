"""The fast search finds what the plain formula finds, and its bounds are never wrong."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recall.similarity.comparison import Comparison, restore_top
from recall.similarity.corpus import ContextVector, ContextVectors
from recall.similarity.events import CorpusEvent, EventKey
from recall.similarity.index import Index
from recall.similarity.measure import MEASURES, Measure
from recall.similarity.ranking import TopK
from recall.similarity.spans import TimeSpan

# Those that are searched in inverted lists.
FAST = st.sampled_from([MEASURES["tfidf"], MEASURES["binary"]])
ANY = st.sampled_from([MEASURES[name] for name in sorted(MEASURES)])
_FAR = 1 << 60


def _facts(rng: random.Random, width: int) -> dict[str, int]:
    """Some terms are everywhere, some rare; now and then the same context again, to tie."""
    words = {min(int(rng.paretovariate(0.6)), width) for _ in range(rng.randint(0, 8))}
    return {f"{'tu'[word % 2]}={word}": rng.choice([1, 1, 1, 2, 300]) for word in words}


def _events(rng: random.Random, count: int, first: int) -> list[CorpusEvent]:
    known: list[dict[str, int]] = [{}]
    events = []
    for number in range(first, first + count):
        facts = rng.choice(known) if rng.random() < 0.3 else _facts(rng, 50)
        known.append(facts)
        events.append(CorpusEvent(rng.randint(0, 10_000), f"e{number:06}", number, facts))
    return events


def _enter(
    index: Index, world: list[CorpusEvent], events: list[CorpusEvent], borders: list[int]
) -> None:
    """Half of them together, the others one by one."""
    world += events
    for part in [events[: len(events) // 2], *([past] for past in events[len(events) // 2 :])]:
        for chunk in range(len(borders) + 1):
            index.add(
                chunk,
                [past for past in part if sum(border <= past.ts for border in borders) == chunk],
            )


def _plain(
    index: Index, world: list[CorpusEvent], one: Comparison, low: int | None, high: int
) -> list[tuple[EventKey, float]]:
    """The best by the formula, over everything."""
    end = min(high, one.before_ts)
    past = sorted(p for p in ((p.key, p) for p in world if p.sequence <= one.event.sequence))
    candidates = [p for _, p in past if p.ts < end and (low is None or p.ts >= low)]
    if not candidates:
        return []
    rows: list[ContextVector] = [index.vocabulary.encode(p.term_counts) for p in candidates]
    scores = one.measure.score_rows(
        index.vocabulary.encode(one.event.term_counts),
        ContextVectors(rows).oldest_rows(len(rows)),
        index.full_counts(one),
    )
    top: TopK[EventKey] = TopK(one.top.k)
    top.add([p.key for p in candidates], scores)
    return [(hit.event, hit.score) for hit in top.hits]


def _spans(borders: list[int]) -> list[TimeSpan]:
    return list(zip([None, *borders], [*borders, _FAR], strict=True))


def _found(one: Comparison) -> list[tuple[EventKey, float]]:
    return [(hit.event, hit.score) for hit in one.top.hits]


def _asked(
    index: Index, rng: random.Random, number: int, measure: Measure, k: int = 3
) -> Comparison:
    event = CorpusEvent(rng.choice([5000, 20_000]), "q", number, _facts(rng, 50))
    return Comparison(event, index.pin_counts(event), measure, restore_top(k, []), event.ts, number)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32), st.integers(1, 60), st.lists(st.integers(0, 10_000), max_size=4), FAST
)
def test_fast_is_plain_while_events_come_in(
    seed: int, count: int, cuts: list[int], measure: Measure
) -> None:
    """Bounds are made once, then moved on with E and C_k; pieces are read in any order; several are asked at once."""
    rng = random.Random(seed)
    borders = sorted(set(cuts))
    index, world = Index(), []
    for _ in range(3):
        _enter(index, world, _events(rng, rng.randint(1, count), len(world) + 1), borders)
        asked = [
            _asked(index, rng, rng.choice([len(world), len(world) // 2]), measure) for _ in range(3)
        ]
        spans = _spans(borders)
        rng.shuffle(spans)
        for span in spans:
            index.score(asked, [span] * len(asked))
        for one in asked:
            assert _found(one) == [
                (key, pytest.approx(s, abs=1e-9))
                for key, s in _plain(index, world, one, None, _FAR)
            ]


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 40),
    st.lists(st.integers(0, 10_000), min_size=1, max_size=6),
    ANY,
)
def test_no_unread_chunk_beats_its_bound(
    seed: int, count: int, cuts: list[int], measure: Measure
) -> None:
    """Also while events come in between the question and the look, and for questions pinned in the past."""
    rng = random.Random(seed)
    borders = sorted(set(cuts))
    index, world = Index(), []
    asked: list[Comparison] = []
    for _ in range(3):
        _enter(index, world, _events(rng, rng.randint(1, count), len(world) + 1), borders)
        asked += [
            _asked(index, rng, len(world), measure),
            _asked(index, rng, len(world) // 2, measure),
        ]
        for one in asked:
            spans = _spans(borders)
            for (low, high), bound in zip(spans, index.score_bounds(one, spans), strict=True):
                best = _plain(index, world, one, low, high)
                if best:
                    assert best[0][1] <= bound
