"""G4: recall of the best hits after a tenth of the chunks, ranked by the chunks' summaries.

Compared with reading newest first. Contexts are of some hundred kinds, which occur uniformly (G4)
or in bursts (G4b).
"""

import statistics
import sys
from collections.abc import Sequence

import numpy as np

from archiver.time_range import TimeRange
from benchmarks.contexts import (
    MICROS_PER_SECOND,
    TERMS_PER_CONTEXT,
    VOCABULARY_SIZE,
    K,
    TermIds,
    add_contexts,
    create_index,
    draw_contexts,
    search,
)
from benchmarks.results import BenchmarkResult, make_result
from benchmarks.timing import time_noise_kernel
from recall.similarity import Index

_REPETITIONS = 5
_QUERIES = 60  # per repetition
_CHUNK_COUNT = 100
_CHUNKS_READ = _CHUNK_COUNT // 10
# With 1,000 contexts each chunk contains every kind, so that summaries help least.
_CONTEXTS_PER_CHUNK = (100, 1000)
_KIND_COUNT = 300
_CHUNKS_PER_BURSTY_KIND = 3


def run() -> list[BenchmarkResult]:
    """Measure uniform contexts, then bursts."""
    results = []
    for bursty in (False, True):
        for size in _CONTEXTS_PER_CHUNK:
            results.append(_measure_early_recall(size, bursty))
    return results


def _measure_early_recall(size: int, bursty: bool) -> BenchmarkResult:
    """Measure chunks of `size` contexts."""
    goal = "G4"
    distribution = "uniform"
    target = "≥ 4 × newest first"
    if bursty:
        goal = "G4b"
        distribution = "bursts"
        target = "≥ 0.9"
    ranked_recalls: list[float] = []
    newest_recalls: list[float] = []
    noise: list[float] = []
    for repetition in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        ranked, newest = _measure_repetition(np.random.default_rng(repetition), size, bursty)
        ranked_recalls.append(ranked)
        newest_recalls.append(newest)
        print(
            f"{goal} {distribution}, {size} contexts per chunk: {ranked:.3f}, "
            f"newest first {newest:.3f}",
            file=sys.stderr,
        )
    newest = statistics.median(newest_recalls)
    ratio = statistics.median(ranked_recalls) / max(newest, 1e-9)
    return make_result(
        goal,
        f"recall@{K} after 10 % of {_CHUNK_COUNT} chunks of {size} contexts, {distribution}",
        ranked_recalls,
        target=target,
        details={"newest_first": round(newest, 3), "ratio": round(ratio, 2)},
        noise=noise,
    )


def _measure_repetition(rng: np.random.Generator, size: int, bursty: bool) -> tuple[float, float]:
    """The mean early recall: chunks ranked by summary, and newest first."""
    index, kinds = _build_index(rng, size, bursty)
    ranked_recalls = []
    newest_recalls = []
    for _ in range(_QUERIES):
        kind = kinds[rng.integers(len(kinds))]
        ranked, newest = _early_recall(index, size, _draw_of_kind(rng, kind))
        ranked_recalls.append(ranked)
        newest_recalls.append(newest)
    return statistics.mean(ranked_recalls), statistics.mean(newest_recalls)


def _draw_of_kind(rng: np.random.Generator, kind: TermIds) -> TermIds:
    """A context of at least half of a kind's own terms, filled up with random ones."""
    own_terms = rng.permutation(kind)
    own_terms = own_terms[: rng.integers(len(kind) // 2, len(kind) + 1)]
    _, random_terms = draw_contexts(rng, 1)
    random_terms = rng.permutation(random_terms)[: TERMS_PER_CONTEXT - len(own_terms)]
    return np.unique(np.concatenate([own_terms, random_terms]))


def _build_index(rng: np.random.Generator, size: int, bursty: bool) -> tuple[Index, list[TermIds]]:
    """An index of all chunks, and the terms of each kind."""
    kinds = [_draw_kind(rng) for _ in range(_KIND_COUNT)]
    kinds_by_chunk: list[list[int]] = [[] for _ in range(_CHUNK_COUNT)]
    for kind in range(_KIND_COUNT):
        for chunk in rng.choice(_CHUNK_COUNT, _CHUNKS_PER_BURSTY_KIND, replace=False).tolist():
            kinds_by_chunk[chunk].append(kind)
    all_kinds = range(_KIND_COUNT)
    index = create_index()
    for chunk, bursty_kinds in enumerate(kinds_by_chunk):
        candidates: Sequence[int] = all_kinds
        if bursty and bursty_kinds:
            candidates = bursty_kinds
        bags = [_draw_of_kind(rng, kinds[rng.choice(candidates)]) for _ in range(size)]
        add_contexts(index, chunk, (np.array(list(map(len, bags))), np.concatenate(bags)))
    return index, kinds


def _draw_kind(rng: np.random.Generator) -> TermIds:
    return rng.choice(VOCABULARY_SIZE, TERMS_PER_CONTEXT // 2, replace=False).astype(np.int32)


def _early_recall(index: Index, size: int, terms: TermIds) -> tuple[float, float]:
    """The share of the best hits in the tenth of the chunks that is read first.

    By the summaries of chunks, and newest first.
    """
    comparison = search(index, terms)
    # Contexts are numbered from 1, one second apart; the first chunk has no lower bound.
    spans: list[TimeRange] = []
    low: int | None = None
    for chunk in range(_CHUNK_COUNT):
        high = (1 + (chunk + 1) * size) * MICROS_PER_SECOND
        spans.append(TimeRange(low, high))
        low = high
    scores = index.expected_scores(comparison, spans)
    # By descending score, newest first among equal scores.
    ranking = sorted(range(_CHUNK_COUNT), key=lambda chunk: (-scores[chunk], -chunk))
    chunks_of_hits = [
        (hit.event[0] // MICROS_PER_SECOND - 1) // size for hit in comparison.top.hits
    ]
    in_ranked = np.isin(chunks_of_hits, ranking[:_CHUNKS_READ])
    in_newest = np.isin(chunks_of_hits, range(_CHUNK_COUNT - _CHUNKS_READ, _CHUNK_COUNT))
    return float(in_ranked.mean()), float(in_newest.mean())
