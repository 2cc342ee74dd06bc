"""L1, L1b, L2: the measure `learned` on one core, in this process.

L1: the 10 best of a million contexts with tags among candidates, divided by the time of `tfidf` for
the same events, measured in turn. L1b: the share of the 10 best of all contexts that are among
them. L2: seconds of one core to learn from 100,000 events of 40 terms with 500 tags.
"""

import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from archiver.time_range import TimeRange
from benchmarks.contexts import (
    MICROS_PER_SECOND,
    TERMS_PER_CONTEXT,
    VOCABULARY_SIZE,
    K,
    TermIds,
    add_contexts,
    draw_contexts,
    make_event_id,
)
from benchmarks.results import BenchmarkResult, make_result
from benchmarks.tagged_contexts import TAGS, TaggedContexts, draw_tagged_contexts, name_term
from benchmarks.timing import measure_seconds, time_noise_kernel
from recall.learning import BuiltModel, LearnedScorer, TrainingEvent, build_model
from recall.similarity import CorpusEvent, Index
from recall.similarity.candidates import Candidates
from recall.similarity.comparison import Comparison, restore_top
from recall.similarity.measures import MEASURES

_REPETITIONS = 7
_QUERIES = 10  # per repetition
_COMPARED_QUERIES = 20  # of which all contexts are ranked
_CONTEXT_COUNT = 1_000_000
_CONTEXTS_PER_SEGMENT = 50_000
_TRAINING_EVENTS = 100_000
_PLACES = 50
_GAP = 10 * MICROS_PER_SECOND
_END_OF_TIME = 1 << 60  # microseconds
_TRAINING_OPTION = "train"


def run() -> list[BenchmarkResult]:
    """Measure all goals."""
    training = _measure_training()
    return [*_compare_searches(_CONTEXT_COUNT, _TRAINING_EVENTS), training]


@dataclass(frozen=True)
class _Corpus:
    """An index, the model of its last events, and events that are compared with it."""

    index: Index
    built: BuiltModel
    queries: Sequence[TermIds]


def _build_corpus(context_count: int, resolved_count: int) -> _Corpus:
    """The newest `resolved_count` contexts have known tags."""
    rng = np.random.default_rng(1)
    index = Index()
    index.vocabulary.encode_terms(map(name_term, range(VOCABULARY_SIZE)))
    drawn: list[TaggedContexts] = []
    for chunk, first in enumerate(range(0, context_count, _CONTEXTS_PER_SEGMENT)):
        size = min(_CONTEXTS_PER_SEGMENT, context_count - first)
        contexts = draw_tagged_contexts(rng, size)
        add_contexts(index, chunk, (contexts.sizes, contexts.terms))
        if first + size > context_count - resolved_count:
            drawn.append(contexts)
    events, tags = make_training_events(drawn, last_sequence=index.last_sequence)
    built = build_model(events, tags, _GAP)
    assert built is not None
    queries = [_draw_query(rng, drawn) for _ in range(_COMPARED_QUERIES)]
    return _Corpus(index, built, queries)


def _draw_query(rng: np.random.Generator, drawn: Sequence[TaggedContexts]) -> TermIds:
    """Half of the terms of a resolved context, and random ones, as for G5."""
    rows = drawn[int(rng.integers(len(drawn)))].rows()
    past_terms = rng.permutation(rows[int(rng.integers(len(rows)))])[: TERMS_PER_CONTEXT // 2]
    _, random_terms = draw_contexts(rng, 1)
    random_terms = rng.permutation(random_terms)[: TERMS_PER_CONTEXT - len(past_terms)]
    return np.unique(np.concatenate([past_terms, random_terms]))


def make_training_events(
    drawn: Sequence[TaggedContexts], last_sequence: int
) -> tuple[list[TrainingEvent], dict[str, str]]:
    """The events of some contexts with their tags, one second apart up to the last one."""
    sequence = last_sequence - sum(len(contexts.sizes) for contexts in drawn)
    events, tags = [], {}
    for contexts in drawn:
        for terms, tag in zip(contexts.rows(), contexts.tags.tolist(), strict=True):
            sequence += 1
            event = _make_event(sequence, terms)
            place_name = f"place {sequence % _PLACES}"
            events.append(TrainingEvent(event.eid, event.ts, event.term_counts, place_name))
            tags[event.eid] = f"tag {tag}"
    return events, tags


def _make_event(sequence: int, terms: TermIds) -> CorpusEvent:
    term_counts = dict.fromkeys(map(name_term, terms.tolist()), 1)
    ts = sequence * MICROS_PER_SECOND
    return CorpusEvent(ts, make_event_id(sequence), sequence=sequence, term_counts=term_counts)


def _search(corpus: _Corpus, terms: TermIds, measure: str) -> Comparison:
    """`measure`: `tfidf`, `learned`, or `all`: `learned` without candidates."""
    index = corpus.index
    event = _make_event(index.last_sequence + _GAP // MICROS_PER_SECOND + 1, terms)
    scorer = None
    if measure != "tfidf":
        scorer = LearnedScorer(corpus.built.model, event, "place 1")
    comparison = Comparison(
        event,
        index.pin_counts(event),
        measure=MEASURES["tfidf"],
        scorer=scorer,
        candidates=Candidates(K) if scorer and measure == "learned" else None,
        top=restore_top(K, []),
        before_ts=event.ts,
        max_sequence=index.last_sequence,
    )
    index.score([comparison], [TimeRange(None, _END_OF_TIME)])
    return comparison


def measure_recall(corpus: _Corpus) -> list[float]:
    """By event: which share of the 10 best of all contexts are the 10 best of the candidates."""
    shares = []
    for terms in corpus.queries:
        best = {hit.event for hit in _search(corpus, terms, "all").top.hits}
        candidate_hits = {hit.event for hit in _search(corpus, terms, "learned").top.hits}
        shares.append(len(best & candidate_hits) / max(len(best), 1))
    return shares


def _compare_searches(context_count: int, resolved_count: int) -> list[BenchmarkResult]:
    corpus = _build_corpus(context_count, resolved_count)
    started = time.perf_counter()
    shares = measure_recall(corpus)
    print(f"L1b {np.mean(shares):.3f} {time.perf_counter() - started:.0f} s", file=sys.stderr)
    noise: list[float] = []
    milliseconds: dict[str, list[float]] = {"tfidf": [], "learned": []}
    for repetition in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        seconds: dict[str, list[float]] = {name: [] for name in milliseconds}
        for terms in corpus.queries[:_QUERIES]:
            for name, values in seconds.items():
                # As for G5, each search is about an event that has just been added.
                event = _make_event(corpus.index.last_sequence + 1, terms)
                corpus.index.add(context_count // _CONTEXTS_PER_SEGMENT, [event])
                values.append(measure_seconds(partial(_search, corpus, terms, name)))
        for name, values in seconds.items():
            milliseconds[name].append(statistics.median(values) * 1000)
        latest = ", ".join(f"{name} {values[-1]:.2f} ms" for name, values in milliseconds.items())
        print(f"L1 {repetition + 1}/{_REPETITIONS} {latest}", file=sys.stderr)
    description = f"top {K} of {context_count:,} contexts of {TERMS_PER_CONTEXT} terms by `learned`"
    details = {f"{name}_ms": round(statistics.median(v), 2) for name, v in milliseconds.items()}
    details["resolutions"] = corpus.built.resolutions
    return [
        make_result(
            "L1",
            f"{description} ÷ by `tfidf`",
            np.divide(milliseconds["learned"], milliseconds["tfidf"]).tolist(),
            target="≤ 2",
            details=details,
            noise=noise,
        ),
        make_result(
            "L1b",
            f"{description}: recall@{K} of the candidates",
            [round(float(np.mean(shares)), 4)],
            target="≥ 0.99",
            details={"events": len(shares)},
            noise=noise,
        ),
    ]


def _measure_training() -> BenchmarkResult:
    """In a process of its own, so that its memory is measured alone."""
    noise = [time_noise_kernel()]
    command = [sys.executable, "-m", "benchmarks.learned", _TRAINING_OPTION]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, megabytes = map(float, printed.split())
    noise.append(time_noise_kernel())
    return make_result(
        "L2",
        f"learning from {_TRAINING_EVENTS:,} events of {TERMS_PER_CONTEXT} terms with {TAGS} tags, "
        "CPU seconds",
        [seconds],
        target="≤ 60 s",
        details={"megabytes": megabytes},
        noise=noise,
    )


def _train() -> None:
    """Print the CPU seconds and the peak memory (MB) of learning."""
    rng = np.random.default_rng(1)
    contexts = draw_tagged_contexts(rng, _TRAINING_EVENTS)
    events, tags = make_training_events([contexts], last_sequence=_TRAINING_EVENTS)
    started = time.process_time()
    build_model(events, tags, _GAP)
    seconds = time.process_time() - started
    print(f"{seconds:.1f} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000:.0f}")


if __name__ == "__main__" and sys.argv[1:] == [_TRAINING_OPTION]:
    _train()
