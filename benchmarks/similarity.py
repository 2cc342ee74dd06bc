"""G5: similarity search, on one core, in this process.

The 10 most alike of a million contexts of 40 terms, with E and C_k as of an event that has just
come in, beside SciPy's sparse product with norms that were made before (G5), and tantivy's BM25
(G5b), which answers another question with the same kind of lists. Terms follow Zipf's law; half of
an event's terms are those of a past one. Before anything is timed, scores are held against the
plain formula over all contexts. Then ten million contexts, by themselves (G5c).
"""

import statistics
import sys
import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import psutil
import tantivy
from scipy.sparse import csr_array

from benchmarks.contexts import (
    TERMS_PER_CONTEXT,
    VOCABULARY_SIZE,
    K,
    TermBags,
    TermIds,
    draw_contexts,
    empty_index,
    make_event,
    put_contexts,
    search,
)
from benchmarks.results import BenchmarkResult, make_result, time_noise_kernel
from recall.similarity import Index

_REPETITIONS, _QUERIES = 7, 10
_CONTEXT_COUNT, _CONTEXTS_PER_SEGMENT = 1_000_000, 50_000
_LARGE_CONTEXT_COUNT, _CONTEXTS_PER_LARGE_SEGMENT = 10_000_000, 100_000
# How far a score may lie from the plain formula.
_TOLERANCE = 1e-9


def run() -> list[BenchmarkResult]:
    """Measure, interleaved."""
    many = _measure_large_index(
        _LARGE_CONTEXT_COUNT
    )  # first, while all memory that the process has is its own
    return [*_compare_with_others(_CONTEXT_COUNT), many]


def _compare_with_others(contexts: int) -> list[BenchmarkResult]:
    rng = np.random.default_rng(1)
    parts = [
        draw_contexts(rng, min(_CONTEXTS_PER_SEGMENT, contexts - first))
        for first in range(0, contexts, _CONTEXTS_PER_SEGMENT)
    ]
    index = _build_index(parts)
    queries = [_draw_query(rng, parts) for _ in range(_QUERIES)]
    found = [search(index, terms) for terms in queries]  # bounds are made, code is loaded
    product = _SparseProduct(parts)
    lists = _TantivyIndex(parts)
    for terms, one in zip(queries, found, strict=True):
        assert np.allclose(
            [hit.score for hit in one.top.hits], product.best_scores(terms), rtol=0, atol=_TOLERANCE
        )
    ours, scipy, bm25, noise = [], [], [], []
    for repetition in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        for terms in queries:
            index.add(len(parts), [make_event(index.last_sequence + 1, terms)])
            ours.append(_measure_seconds(lambda terms=terms: search(index, terms)))
            scipy.append(_measure_seconds(lambda terms=terms: product.search(terms)))
            bm25.append(_measure_seconds(lambda terms=terms: lists.search(terms)))
        mine, theirs, others = (
            statistics.median(times[-_QUERIES:]) * 1000 for times in (ours, scipy, bm25)
        )
        told = f"{mine:.2f} ms, SciPy {theirs:.2f} ms, tantivy {others:.2f} ms"
        print(f"G5 {repetition + 1}/{_REPETITIONS} {told}", file=sys.stderr)
    beside = {
        "ours_ms": _median_milliseconds(ours),
        "scipy_ms": _median_milliseconds(scipy),
        "tantivy_ms": _median_milliseconds(bm25),
        "contexts": contexts,
    }
    what = f"top {K} of {contexts:,} contexts of {TERMS_PER_CONTEXT} terms ÷ "
    return [
        make_result(
            "G5", what + "SciPy's sparse product", _ratios(ours, scipy), "≤ 1/10", beside, noise
        ),
        make_result("G5b", what + "tantivy's BM25", _ratios(ours, bm25), "≤ 1/3", beside, noise),
    ]


def _measure_large_index(contexts: int) -> BenchmarkResult:
    """Contexts are dropped once they are indexed: those of one chunk are kept, to make events like
    them.
    """
    rng = np.random.default_rng(2)
    kept = draw_contexts(rng, _CONTEXTS_PER_LARGE_SEGMENT)
    queries = [_draw_query(rng, [kept]) for _ in range(_QUERIES)]
    before = psutil.Process().memory_info().rss
    index = empty_index()
    for chunk in range(contexts // _CONTEXTS_PER_LARGE_SEGMENT):
        put_contexts(
            index, chunk, draw_contexts(rng, _CONTEXTS_PER_LARGE_SEGMENT) if chunk else kept
        )
    for terms in queries:
        search(index, terms)
    megabytes = (psutil.Process().memory_info().rss - before) / 1e6
    taken, noise = [], []
    for repetition in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        times = []
        for terms in queries:
            index.add(
                contexts // _CONTEXTS_PER_LARGE_SEGMENT,
                [make_event(index.last_sequence + 1, terms)],
            )
            times.append(_measure_seconds(lambda terms=terms: search(index, terms)))
        taken.append(statistics.median(times) * 1000)
        print(
            f"G5c {repetition + 1}/{_REPETITIONS} {contexts:,} contexts {taken[-1]:.1f} ms",
            file=sys.stderr,
        )
    what = f"top {K} of {contexts:,} contexts of {TERMS_PER_CONTEXT} terms, milliseconds"
    return make_result("G5c", what, taken, "≤ 60 ms", {"index_megabytes": round(megabytes)}, noise)


def _median_milliseconds(times: Sequence[float]) -> float:
    return round(statistics.median(times) * 1000, 2)


def _ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """One for each repetition: medians over its queries."""
    rounds = range(0, len(ours), _QUERIES)
    return [
        statistics.median(ours[at : at + _QUERIES]) / statistics.median(theirs[at : at + _QUERIES])
        for at in rounds
    ]


def _measure_seconds(search: object) -> float:
    assert callable(search)
    began = time.perf_counter()
    search()
    return time.perf_counter() - began


def _draw_query(rng: np.random.Generator, parts: Sequence[TermBags]) -> TermIds:
    """Half of a past context, half anything."""
    sizes, terms = parts[int(rng.integers(len(parts)))]
    row = rng.integers(len(sizes))
    first = int(sizes[:row].sum())
    mine = rng.permutation(terms[first : first + sizes[row]])[: TERMS_PER_CONTEXT // 2]
    _, other = draw_contexts(rng, 1)
    return np.unique(
        np.concatenate([mine, rng.permutation(other)[: TERMS_PER_CONTEXT - len(mine)]])
    )


def _build_index(parts: Sequence[TermBags]) -> Index:
    index = empty_index()
    for chunk, bags in enumerate(parts):
        put_contexts(index, chunk, bags)
    return index


class _SparseProduct:
    """Weights as of the beginning, norms made before."""

    def __init__(self, parts: Sequence[TermBags]) -> None:
        sizes = np.concatenate([sizes for sizes, _ in parts])
        terms = np.concatenate([terms for _, terms in parts])
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        self._document_counts = np.bincount(terms, minlength=VOCABULARY_SIZE)
        self._idf = np.log10(len(sizes) / np.maximum(self._document_counts, 1))
        self._rows = csr_array(
            (np.ones(len(terms)), terms, starts), shape=(len(sizes), VOCABULARY_SIZE)
        )
        self._norms = np.maximum(np.sqrt(self._rows @ self._idf**2), 1e-12)

    def search(self, terms: TermIds) -> npt.NDArray[np.intp]:
        weights = np.zeros(VOCABULARY_SIZE)
        weights[terms] = self._idf[terms] ** 2
        scores = (self._rows @ weights) / self._norms
        return np.argpartition(scores, -K)[-K:]

    def best_scores(self, terms: TermIds) -> npt.NDArray[np.float64]:
        """The best scores by the plain formula, with E and C_k of now: those of an event with such
        terms too.
        """
        held = self._document_counts + np.bincount(terms, minlength=VOCABULARY_SIZE)
        idf = np.log10((self._rows.shape[0] + 1) / np.maximum(held, 1))
        mine = np.zeros(VOCABULARY_SIZE)
        mine[terms] = idf[terms] ** 2
        norms = np.sqrt(self._rows @ idf**2) * np.sqrt(mine.sum())
        scores = np.sort((self._rows @ mine) / np.maximum(norms, 1e-12))[::-1]
        return np.asarray(scores[:K])


class _TantivyIndex:
    """tantivy, one thread, one field of words with their frequencies."""

    def __init__(self, parts: Sequence[TermBags]) -> None:
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("terms", tokenizer_name="whitespace", index_option="freq")
        self._index = tantivy.Index(builder.build())
        writer = self._index.writer(500_000_000, 1)
        words = np.array([f"t{word}" for word in range(VOCABULARY_SIZE)], dtype=object)
        for sizes, terms in parts:
            ends = np.cumsum(sizes)
            for first, last in zip(ends - sizes, ends, strict=True):
                writer.add_document(tantivy.Document(terms=" ".join(words[terms[first:last]])))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self._searcher = self._index.searcher()

    def search(self, terms: TermIds) -> object:
        query = self._index.parse_query(" ".join(f"t{word}" for word in terms.tolist()), ["terms"])
        return self._searcher.search(query, K, count=False).hits
