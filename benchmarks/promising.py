"""G4: how many of the 10 most alike are found after a tenth of the chunks, ranked by the chunks' summaries.

Beside newest first; contexts of some hundred kinds, which come evenly (G4) or in bursts (G4b).
"""

import statistics
import sys
from itertools import pairwise

import numpy as np

from benchmarks.contexts import SECOND, TERMS, WORDS, K, Terms, empty, put, search, zipf
from benchmarks.results import Result, kernel, result
from recall.similarity.index import Index

_REPETITIONS = 5
_CHUNKS, _KINDS, _ASKED = 100, 300, 60
# Contexts of a chunk: with the second number each kind is in each chunk, so that summaries tell least.
_IN_CHUNK = (100, 1000)


def run() -> list[Result]:
    """Measure, interleaved."""
    return [_early(size, bursty) for bursty in (False, True) for size in _IN_CHUNK]


def _early(size: int, bursty: bool) -> Result:
    found, newest, noise = [], [], []
    for repetition in range(_REPETITIONS):
        noise.append(kernel())
        rng = np.random.default_rng(repetition)
        index, kinds = _of_kinds(rng, size, bursty)
        pairs = [_found(index, size, _of_kind(rng, kinds[rng.integers(len(kinds))])) for _ in range(_ASKED)]
        found.append(statistics.mean(ranked for ranked, _ in pairs))
        newest.append(statistics.mean(plain for _, plain in pairs))
        kind = f"{'bursty' if bursty else 'uniform'}, {size} a chunk"
        print(f"G4 {kind}: {found[-1]:.3f}, newest first {newest[-1]:.3f}", file=sys.stderr)
    ratio = statistics.median(found) / max(statistics.median(newest), 1e-9)
    beside = {"newest_first": round(statistics.median(newest), 3), "ratio": round(ratio, 2)}
    what = f"recall@{K} after 10 % of {_CHUNKS} chunks of {size} contexts, {'bursts' if bursty else 'uniform'}"
    target = "≥ 0.9" if bursty else "≥ 4 × newest first"
    return result("G4b" if bursty else "G4", what, found, target, beside, noise)


def _of_kind(rng: np.random.Generator, kind: Terms) -> Terms:
    """Most of a kind's own terms, and what else there was."""
    own = rng.permutation(kind)[: int(rng.integers(len(kind) // 2, len(kind) + 1))]
    _, other = zipf(rng, 1)
    return np.unique(np.concatenate([own, rng.permutation(other)[: TERMS - len(own)]]))


def _of_kinds(rng: np.random.Generator, size: int, bursty: bool) -> tuple[Index, list[Terms]]:
    kinds = [rng.choice(WORDS, TERMS // 2, replace=False).astype(np.int32) for _ in range(_KINDS)]
    homes = [rng.choice(_CHUNKS, 3, replace=False) for _ in range(_KINDS)]
    index = empty()
    for chunk in range(_CHUNKS):
        there = [k for k in range(_KINDS) if chunk in homes[k]] if bursty else list(range(_KINDS))
        bags = [_of_kind(rng, kinds[rng.choice(there or range(_KINDS))]) for _ in range(size)]
        put(index, chunk, (np.array([len(bag) for bag in bags]), np.concatenate(bags)))
    return index, kinds


def _found(index: Index, size: int, terms: Terms) -> tuple[float, float]:
    """Parts of the best that are in the tenth of the chunks read first: by promise, newest first."""
    one = search(index, terms)
    edges = [None, *(1 + at * size for at in range(1, _CHUNKS)), index.number + 1]
    spans = [(None if low is None else low * SECOND, (high or 0) * SECOND) for low, high in pairwise(edges)]
    promises = index.promises(one, spans)
    tenth = sorted(range(_CHUNKS), key=lambda chunk: (-promises[chunk], -chunk))[: _CHUNKS // 10]
    homes = [(hit.event[0] // SECOND - 1) // size for hit in one.top.hits]
    return (
        statistics.mean(home in tenth for home in homes),
        statistics.mean(home >= _CHUNKS - _CHUNKS // 10 for home in homes),
    )
