"""G4, G5: similarity search, on one core, in this process.

G5: the 10 most alike of a million contexts of 40 terms, with E and C_k as of an event that has just come in, beside
SciPy's sparse product with norms that were made before (G5), and tantivy's BM25 (G5b), which answers another question
with the same kind of lists. Terms follow Zipf's law; half of an event's terms are those of a past one.

G4: how many of the 10 most alike are found after a tenth of the chunks, ranked by the chunks' summaries, beside newest
first; contexts of some hundred kinds, which come evenly (G4) or in bursts (G4b).
"""

import statistics
import sys
import time
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import tantivy
from scipy.sparse import csr_array

from benchmarks.results import Result, kernel, result
from recall.similarity.index import Comparison, Index, Past, restored
from recall.similarity.measure import MEASURES
from recall.similarity.segment import Segment

_REPETITIONS, _QUERIES, _K = 7, 10, 10
_CONTEXTS, _TERMS, _WORDS, _SEGMENT = 1_000_000, 40, 100_000, 50_000
_CHUNKS, _KINDS, _ASKED = 100, 300, 60
# Contexts of a chunk: with the second number each kind is in each chunk, so that summaries tell least.
_IN_CHUNK = (100, 1000)
_SECOND = 1_000_000
_FAR = 1 << 60

Terms = npt.NDArray[np.int32]
# Sizes of contexts, and their terms one after the other.
Bags = tuple[npt.NDArray[np.int64], Terms]


def run() -> list[Result]:
    """Measure, interleaved."""
    early = [_early(size, bursty) for bursty in (False, True) for size in _IN_CHUNK]
    return [*_speed(_CONTEXTS), *early]


# G5


def _speed(contexts: int) -> list[Result]:
    rng = np.random.default_rng(1)
    parts = [_zipf(rng, min(_SEGMENT, contexts - first)) for first in range(0, contexts, _SEGMENT)]
    index = _indexed(parts)
    product = _Product(parts)
    lists = _Lists(parts)
    ours, scipy, bm25, noise = [], [], [], []
    queries = [_like_one(rng, parts) for _ in range(_QUERIES)]
    for terms in queries:  # bounds are made, code is loaded
        _search(index, terms)
    for repetition in range(_REPETITIONS):
        noise.append(kernel())
        for terms in queries:
            index.add(len(parts), [_event(index.number + 1, terms)])
            ours.append(_timed(lambda terms=terms: _search(index, terms)))
            scipy.append(_timed(lambda terms=terms: product.search(terms)))
            bm25.append(_timed(lambda terms=terms: lists.search(terms)))
        mine, theirs, others = (statistics.median(times[-_QUERIES:]) * 1000 for times in (ours, scipy, bm25))
        told = f"{mine:.2f} ms, SciPy {theirs:.2f} ms, tantivy {others:.2f} ms"
        print(f"G5 {repetition + 1}/{_REPETITIONS} {told}", file=sys.stderr)
    beside = {
        "ours_ms": _milliseconds(ours),
        "scipy_ms": _milliseconds(scipy),
        "tantivy_ms": _milliseconds(bm25),
        "contexts": contexts,
    }
    what = f"top {_K} of {contexts:,} contexts of {_TERMS} terms ÷ "
    return [
        result("G5", what + "SciPy's sparse product", _ratios(ours, scipy), "≤ 1/10", beside, noise),
        result("G5b", what + "tantivy's BM25", _ratios(ours, bm25), "≤ 1/3", beside, noise),
    ]


def _milliseconds(times: Sequence[float]) -> float:
    return round(statistics.median(times) * 1000, 2)


def _ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """One for each repetition: medians over its queries."""
    rounds = range(0, len(ours), _QUERIES)
    return [
        statistics.median(ours[at : at + _QUERIES]) / statistics.median(theirs[at : at + _QUERIES]) for at in rounds
    ]


def _timed(search: object) -> float:
    assert callable(search)
    began = time.perf_counter()
    search()
    return time.perf_counter() - began


@cache
def _weights() -> npt.NDArray[np.float64]:
    return np.cumsum(1 / np.arange(1, _WORDS + 1))


def _zipf(rng: np.random.Generator, count: int) -> Bags:
    """Contexts of different terms each, the n-th most frequent term 1/n as frequent as the first."""
    weights = _weights()
    drawn = np.searchsorted(weights, rng.random((count, 2 * _TERMS)) * weights[-1]).astype(np.int32)
    drawn.sort(axis=1)
    first = np.ones(drawn.shape, dtype=bool)
    first[:, 1:] = drawn[:, 1:] != drawn[:, :-1]
    # As many as wanted of the different ones, by lot.
    lots = np.where(first, rng.random(drawn.shape), 2.0)
    kept = first & (lots <= np.partition(lots, _TERMS - 1, axis=1)[:, _TERMS - 1 : _TERMS])
    return kept.sum(axis=1), drawn[kept]


def _like_one(rng: np.random.Generator, parts: Sequence[Bags]) -> Terms:
    """Half of a past context, half anything."""
    sizes, terms = parts[int(rng.integers(len(parts)))]
    row = rng.integers(len(sizes))
    first = int(sizes[:row].sum())
    mine = rng.permutation(terms[first : first + sizes[row]])[: _TERMS // 2]
    _, other = _zipf(rng, 1)
    return np.unique(np.concatenate([mine, rng.permutation(other)[: _TERMS - len(mine)]]))


def _indexed(parts: Sequence[Bags]) -> Index:
    index = Index()
    index.vocabulary.numbered(f"t={word}" for word in range(_WORDS))
    for chunk, (sizes, terms) in enumerate(parts):
        numbers = np.arange(index.number + 1, index.number + 1 + len(sizes))
        index.put(Segment.made(chunk, numbers * _SECOND, _eids(numbers), numbers, sizes, terms, np.ones(len(terms))))
    return index


def _eids(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.bytes_]:
    return np.array([f"{number:09}".encode() for number in numbers.tolist()])


def _event(number: int, terms: Terms) -> Past:
    return Past(number * _SECOND, f"{number:09}", number, {f"t={word}": 1 for word in terms.tolist()})


def _search(index: Index, terms: Terms) -> Comparison:
    event = _event(index.number + 1, terms)
    one = Comparison(event, index.pin(event), MEASURES["tfidf"], restored(_K, []), event.ts, index.number)
    index.score([one], [(None, _FAR)])
    return one


class _Product:
    """Weights as of the beginning, norms made before."""

    def __init__(self, parts: Sequence[Bags]) -> None:
        sizes = np.concatenate([sizes for sizes, _ in parts])
        terms = np.concatenate([terms for _, terms in parts])
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        held = np.bincount(terms, minlength=_WORDS)
        self._idf = np.log10(len(sizes) / np.maximum(held, 1))
        self._rows = csr_array((np.ones(len(terms)), terms, starts), shape=(len(sizes), _WORDS))
        self._norms = np.maximum(np.sqrt(self._rows @ self._idf**2), 1e-12)

    def search(self, terms: Terms) -> npt.NDArray[np.intp]:
        weights = np.zeros(_WORDS)
        weights[terms] = self._idf[terms] ** 2
        scores = (self._rows @ weights) / self._norms
        return np.argpartition(scores, -_K)[-_K:]


class _Lists:
    """tantivy, one thread, one field of words with their frequencies."""

    def __init__(self, parts: Sequence[Bags]) -> None:
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("terms", tokenizer_name="whitespace", index_option="freq")
        self._index = tantivy.Index(builder.build())
        writer = self._index.writer(500_000_000, 1)
        words = np.array([f"t{word}" for word in range(_WORDS)], dtype=object)
        for sizes, terms in parts:
            ends = np.cumsum(sizes)
            for first, last in zip(ends - sizes, ends, strict=True):
                writer.add_document(tantivy.Document(terms=" ".join(words[terms[first:last]])))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self._searcher = self._index.searcher()

    def search(self, terms: Terms) -> object:
        query = self._index.parse_query(" ".join(f"t{word}" for word in terms.tolist()), ["terms"])
        return self._searcher.search(query, _K, count=False).hits


# G4


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
    what = f"recall@{_K} after 10 % of {_CHUNKS} chunks of {size} contexts, {'bursts' if bursty else 'uniform'}"
    target = "≥ 0.9" if bursty else "≥ 4 × newest first"
    return result("G4b" if bursty else "G4", what, found, target, beside, noise)


def _of_kind(rng: np.random.Generator, kind: Terms) -> Terms:
    """Most of a kind's own terms, and what else there was."""
    own = rng.permutation(kind)[: int(rng.integers(len(kind) // 2, len(kind) + 1))]
    _, other = _zipf(rng, 1)
    return np.unique(np.concatenate([own, rng.permutation(other)[: _TERMS - len(own)]]))


def _of_kinds(rng: np.random.Generator, size: int, bursty: bool) -> tuple[Index, list[Terms]]:
    kinds = [rng.choice(_WORDS, _TERMS // 2, replace=False).astype(np.int32) for _ in range(_KINDS)]
    homes = [rng.choice(_CHUNKS, 3, replace=False) for _ in range(_KINDS)]
    index = Index()
    index.vocabulary.numbered(f"t={word}" for word in range(_WORDS))
    for chunk in range(_CHUNKS):
        there = [k for k in range(_KINDS) if chunk in homes[k]] if bursty else list(range(_KINDS))
        bags = [_of_kind(rng, kinds[rng.choice(there or range(_KINDS))]) for _ in range(size)]
        numbers = np.arange(index.number + 1, index.number + 1 + len(bags))
        sizes, terms = np.array([len(bag) for bag in bags]), np.concatenate(bags)
        index.put(Segment.made(chunk, numbers * _SECOND, _eids(numbers), numbers, sizes, terms, np.ones(len(terms))))
    return index, kinds


def _found(index: Index, size: int, terms: Terms) -> tuple[float, float]:
    """Parts of the best that are in the tenth of the chunks read first: by promise, newest first."""
    one = _search(index, terms)
    edges = [None, *(1 + at * size for at in range(1, _CHUNKS)), index.number + 1]
    spans = [(None if low is None else low * _SECOND, (high or 0) * _SECOND) for low, high in pairwise(edges)]
    promises = index.promises(one, spans)
    tenth = sorted(range(_CHUNKS), key=lambda chunk: (-promises[chunk], -chunk))[: _CHUNKS // 10]
    homes = [(hit.event[0] // _SECOND - 1) // size for hit in one.top.hits]
    return (
        statistics.mean(home in tenth for home in homes),
        statistics.mean(home >= _CHUNKS - _CHUNKS // 10 for home in homes),
    )
