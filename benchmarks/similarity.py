"""G5, G5b, G5c: similarity search on one core, in this process.

The 10 most similar of a million contexts of 40 terms, with E and C_k as of an event that has just
been added. Compared with SciPy's sparse product with precomputed norms (G5), and with tantivy's
BM25 (G5b), which has another score but the same kind of posting lists. Terms follow Zipf's law;
half of an event's terms are those of a past context. Before the timing, scores are verified by the
plain formula over all contexts. Ten million contexts are measured alone (G5c).
"""

import statistics
import sys
from collections.abc import Callable, Sequence
from functools import partial

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
    add_contexts,
    create_index,
    draw_contexts,
    make_event,
    search,
)
from benchmarks.results import BenchmarkResult, make_result
from benchmarks.timing import measure_seconds, time_noise_kernel
from recall.similarity import Index

_REPETITIONS = 7
_QUERIES = 10  # per repetition
_CONTEXT_COUNT = 1_000_000
_CONTEXTS_PER_SEGMENT = 50_000
_LARGE_CONTEXT_COUNT = 10_000_000
_CONTEXTS_PER_LARGE_SEGMENT = 100_000
_TOLERANCE = 1e-9  # difference of a score from the plain formula
_TANTIVY_HEAP_BYTES = 500_000_000
_TANTIVY_THREADS = 1


def run() -> list[BenchmarkResult]:
    """Measure all goals."""
    # First, as its memory is measured: nothing else has been allocated and freed yet.
    large_index_result = _measure_large_index(_LARGE_CONTEXT_COUNT)
    return [*_compare_searches(_CONTEXT_COUNT), large_index_result]


def _compare_searches(context_count: int) -> list[BenchmarkResult]:
    rng = np.random.default_rng(1)
    segments = []
    for first in range(0, context_count, _CONTEXTS_PER_SEGMENT):
        size = min(_CONTEXTS_PER_SEGMENT, context_count - first)
        segments.append(draw_contexts(rng, size))
    index = _build_index(segments)
    queries = [_draw_query(rng, segments) for _ in range(_QUERIES)]
    # The first searches also compute bounds and load code.
    comparisons = [search(index, terms) for terms in queries]
    sparse_product = _SparseProduct(segments)
    tantivy_index = _TantivyIndex(segments)
    for terms, comparison in zip(queries, comparisons, strict=True):
        scores = [hit.score for hit in comparison.top.hits]
        assert np.allclose(scores, sparse_product.best_scores(terms), rtol=0, atol=_TOLERANCE)
    searches: dict[str, Callable[[TermIds], object]] = {
        "moirae": partial(search, index),
        "SciPy": sparse_product.search,
        "tantivy": tantivy_index.search,
    }
    noise: list[float] = []
    # One value for each repetition: the median milliseconds over its queries.
    milliseconds: dict[str, list[float]] = {name: [] for name in searches}
    # One value for each query.
    all_milliseconds: dict[str, list[float]] = {name: [] for name in searches}
    for repetition in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        for terms in queries:
            index.add(len(segments), [make_event(index.last_sequence + 1, terms)])
            for name, run_search in searches.items():
                seconds = measure_seconds(partial(run_search, terms))
                all_milliseconds[name].append(seconds * 1000)
        for name, values in milliseconds.items():
            values.append(statistics.median(all_milliseconds[name][-_QUERIES:]))
        latest = ", ".join(f"{name} {values[-1]:.2f} ms" for name, values in milliseconds.items())
        print(f"G5 {repetition + 1}/{_REPETITIONS} {latest}", file=sys.stderr)
    details: dict[str, float] = {}
    for name, values in all_milliseconds.items():
        details[f"{name.lower()}_ms"] = round(statistics.median(values), 2)
    details["contexts"] = context_count
    description = f"top {K} of {context_count:,} contexts of {TERMS_PER_CONTEXT} terms"
    return [
        make_result(
            "G5",
            f"{description} ÷ SciPy's sparse product",
            np.divide(milliseconds["moirae"], milliseconds["SciPy"]).tolist(),
            target="≤ 1/10",
            details=details,
            noise=noise,
        ),
        make_result(
            "G5b",
            f"{description} ÷ tantivy's BM25",
            np.divide(milliseconds["moirae"], milliseconds["tantivy"]).tolist(),
            target="≤ 1/3",
            details=details,
            noise=noise,
        ),
    ]


def _measure_large_index(context_count: int) -> BenchmarkResult:
    """Milliseconds of a search, and the memory of the index.

    Contexts are freed once they are indexed, except those of the first chunk, from which queries
    are drawn.
    """
    rng = np.random.default_rng(2)
    first_contexts = draw_contexts(rng, _CONTEXTS_PER_LARGE_SEGMENT)
    queries = [_draw_query(rng, [first_contexts]) for _ in range(_QUERIES)]
    process = psutil.Process()
    bytes_before = process.memory_info().rss
    chunk_count = context_count // _CONTEXTS_PER_LARGE_SEGMENT
    index = create_index()
    add_contexts(index, 0, first_contexts)
    for chunk in range(1, chunk_count):
        add_contexts(index, chunk, draw_contexts(rng, _CONTEXTS_PER_LARGE_SEGMENT))
    for terms in queries:
        search(index, terms)
    megabytes = (process.memory_info().rss - bytes_before) / 1e6
    noise: list[float] = []
    milliseconds: list[float] = []
    for repetition in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        seconds = []
        for terms in queries:
            index.add(chunk_count, [make_event(index.last_sequence + 1, terms)])
            seconds.append(measure_seconds(partial(search, index, terms)))
        milliseconds.append(statistics.median(seconds) * 1000)
        print(
            f"G5c {repetition + 1}/{_REPETITIONS} {context_count:,} contexts "
            f"{milliseconds[-1]:.1f} ms",
            file=sys.stderr,
        )
    return make_result(
        "G5c",
        f"top {K} of {context_count:,} contexts of {TERMS_PER_CONTEXT} terms, milliseconds",
        milliseconds,
        target="≤ 60 ms",
        details={"index_megabytes": round(megabytes)},
        noise=noise,
    )


def _draw_query(rng: np.random.Generator, segments: Sequence[TermBags]) -> TermIds:
    """Half of the terms of a past context, and random ones."""
    sizes, terms = segments[int(rng.integers(len(segments)))]
    row = rng.integers(len(sizes))
    start = int(sizes[:row].sum())
    past_terms = rng.permutation(terms[start : start + sizes[row]])[: TERMS_PER_CONTEXT // 2]
    _, random_terms = draw_contexts(rng, 1)
    random_terms = rng.permutation(random_terms)[: TERMS_PER_CONTEXT - len(past_terms)]
    return np.unique(np.concatenate([past_terms, random_terms]))


def _build_index(segments: Sequence[TermBags]) -> Index:
    index = create_index()
    for chunk, bags in enumerate(segments):
        add_contexts(index, chunk, bags)
    return index


class _SparseProduct:
    """SciPy's sparse product. Weights and norms are those of the contexts at the beginning."""

    def __init__(self, segments: Sequence[TermBags]) -> None:
        sizes, terms = map(np.concatenate, zip(*segments, strict=True))
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
        """The best scores of a new event by the plain formula, best first.

        E and C_k include the new event.
        """
        counts = self._document_counts + np.bincount(terms, minlength=VOCABULARY_SIZE)
        idf = np.log10((self._rows.shape[0] + 1) / np.maximum(counts, 1))
        weights = np.zeros(VOCABULARY_SIZE)
        weights[terms] = idf[terms] ** 2
        norms = np.sqrt(self._rows @ idf**2) * np.sqrt(weights.sum())
        scores = np.sort((self._rows @ weights) / np.maximum(norms, 1e-12))[::-1]
        return np.asarray(scores[:K])


class _TantivyIndex:
    """tantivy with one thread, and one field of words with their frequencies."""

    def __init__(self, segments: Sequence[TermBags]) -> None:
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("terms", tokenizer_name="whitespace", index_option="freq")
        self._index = tantivy.Index(builder.build())
        writer = self._index.writer(_TANTIVY_HEAP_BYTES, _TANTIVY_THREADS)
        words = np.array(list(map("t{}".format, range(VOCABULARY_SIZE))), dtype=object)
        for sizes, terms in segments:
            ends = np.cumsum(sizes)
            for first, last in zip(ends - sizes, ends, strict=True):
                writer.add_document(tantivy.Document(terms=" ".join(words[terms[first:last]])))
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self._searcher = self._index.searcher()

    def search(self, terms: TermIds) -> object:
        words = " ".join(map("t{}".format, terms.tolist()))
        query = self._index.parse_query(words, ["terms"])
        return self._searcher.search(query, K, count=False).hits
