"""G4: how many of the 10 most alike are found after a tenth of the chunks, ranked by the chunks'
summaries.

Beside newest first; contexts of some hundred kinds, which come evenly (G4) or in bursts (G4b).
"""

import statistics
import sys
from itertools import pairwise

import numpy as np

from archiver.time_range import TimeRange
from benchmarks.contexts import (
    MICROS_PER_SECOND,
    TERMS_PER_CONTEXT,
    VOCABULARY_SIZE,
    K,
    TermIds,
    draw_contexts,
    empty_index,
    put_contexts,
    search,
)
from benchmarks.results import BenchmarkResult, make_result, time_noise_kernel
from recall.similarity import Index

_REPETITIONS = 5
_CHUNK_COUNT, _KIND_COUNT, _QUERIES = 100, 300, 60
# Contexts of a chunk: with the second number each kind is in each chunk, so that summaries tell
# least.
_CONTEXTS_PER_CHUNK = (100, 1000)


def run() -> list[BenchmarkResult]:
    """Measure, interleaved."""
    return [
        _measure_early_recall(size, bursty)
        for bursty in (False, True)
        for size in _CONTEXTS_PER_CHUNK
    ]


def _measure_early_recall(size: int, bursty: bool) -> BenchmarkResult:
    found, newest, noise = [], [], []
    for repetition in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        rng = np.random.default_rng(repetition)
        index, kinds = _build_index(rng, size, bursty)
        pairs = [
            _early_recall(index, size, _draw_of_kind(rng, kinds[rng.integers(len(kinds))]))
            for _ in range(_QUERIES)
        ]
        found.append(statistics.mean(ranked for ranked, _ in pairs))
        newest.append(statistics.mean(plain for _, plain in pairs))
        kind = f"{'bursty' if bursty else 'uniform'}, {size} a chunk"
        print(f"G4 {kind}: {found[-1]:.3f}, newest first {newest[-1]:.3f}", file=sys.stderr)
    ratio = statistics.median(found) / max(statistics.median(newest), 1e-9)
    beside = {"newest_first": round(statistics.median(newest), 3), "ratio": round(ratio, 2)}
    what = f"recall@{K} after 10 % of {_CHUNK_COUNT} chunks of {size} contexts, {'bursts' if bursty else 'uniform'}"
    target = "≥ 0.9" if bursty else "≥ 4 × newest first"
    return make_result("G4b" if bursty else "G4", what, found, target, beside, noise)


def _draw_of_kind(rng: np.random.Generator, kind: TermIds) -> TermIds:
    """Most of a kind's own terms, and what else there was."""
    own = rng.permutation(kind)[: int(rng.integers(len(kind) // 2, len(kind) + 1))]
    _, other = draw_contexts(rng, 1)
    return np.unique(np.concatenate([own, rng.permutation(other)[: TERMS_PER_CONTEXT - len(own)]]))


def _build_index(rng: np.random.Generator, size: int, bursty: bool) -> tuple[Index, list[TermIds]]:
    kinds = [
        rng.choice(VOCABULARY_SIZE, TERMS_PER_CONTEXT // 2, replace=False).astype(np.int32)
        for _ in range(_KIND_COUNT)
    ]
    homes = [rng.choice(_CHUNK_COUNT, 3, replace=False) for _ in range(_KIND_COUNT)]
    index = empty_index()
    for chunk in range(_CHUNK_COUNT):
        there = (
            [k for k in range(_KIND_COUNT) if chunk in homes[k]]
            if bursty
            else list(range(_KIND_COUNT))
        )
        bags = [
            _draw_of_kind(rng, kinds[rng.choice(there or range(_KIND_COUNT))]) for _ in range(size)
        ]
        put_contexts(index, chunk, (np.array([len(bag) for bag in bags]), np.concatenate(bags)))
    return index, kinds


def _early_recall(index: Index, size: int, terms: TermIds) -> tuple[float, float]:
    """Parts of the best that are in the tenth of the chunks read first: by promise, newest first."""
    one = search(index, terms)
    edges = [None, *(1 + at * size for at in range(1, _CHUNK_COUNT)), index.last_sequence + 1]
    spans = [
        TimeRange(None if low is None else low * MICROS_PER_SECOND, (high or 0) * MICROS_PER_SECOND)
        for low, high in pairwise(edges)
    ]
    promises = index.expected_scores(one, spans)
    tenth = sorted(range(_CHUNK_COUNT), key=lambda chunk: (-promises[chunk], -chunk))[
        : _CHUNK_COUNT // 10
    ]
    homes = [(hit.event[0] // MICROS_PER_SECOND - 1) // size for hit in one.top.hits]
    return (
        statistics.mean(home in tenth for home in homes),
        statistics.mean(home >= _CHUNK_COUNT - _CHUNK_COUNT // 10 for home in homes),
    )
