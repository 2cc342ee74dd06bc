"""Random contexts with terms by Zipf's law, an index of them, and the search that is timed."""

from functools import cache

import numpy as np
import numpy.typing as npt

from archiver.time_range import TimeRange
from recall.similarity import CorpusEvent, Index
from recall.similarity.comparison import Comparison, restore_top
from recall.similarity.measures import MEASURES
from recall.similarity.segments.segment import Segment, SegmentRows

K = 10  # hits of a search
TERMS_PER_CONTEXT = 40
VOCABULARY_SIZE = 100_000  # terms
MICROS_PER_SECOND = 1_000_000
_ID_FACTOR = (
    0x9E3779B97F4A7C15F39CC0605CEDC835  # odd, so that products differ; 2^128 ÷ golden ratio
)
_END_OF_TIME = 1 << 60  # microseconds, later than all contexts

TermIds = npt.NDArray[np.int32]
# The number of terms by context, and the terms of all contexts, concatenated.
TermBags = tuple[npt.NDArray[np.int64], TermIds]


def create_index() -> Index:
    """An index without contexts that has the whole vocabulary."""
    index = Index()
    index.vocabulary.encode_terms(map("t={}".format, range(VOCABULARY_SIZE)))
    return index


def add_contexts(index: Index, chunk: int, bags: TermBags) -> None:
    """Add the contexts of a chunk, one second apart."""
    sizes, terms = bags
    first_sequence = index.last_sequence + 1
    sequences = np.arange(first_sequence, first_sequence + len(sizes))
    rows = SegmentRows(
        ts=sequences * MICROS_PER_SECOND,
        eids=np.array([make_event_id(sequence).encode() for sequence in sequences.tolist()]),
        sequences=sequences,
        sizes=sizes,
        terms=terms,
        counts=np.ones(len(terms)),
    )
    index.add_segment(Segment.from_rows(chunk, rows))


@cache
def _cumulative_term_weights() -> npt.NDArray[np.float64]:
    return np.cumsum(1 / np.arange(1, VOCABULARY_SIZE + 1))


def draw_contexts(rng: np.random.Generator, count: int) -> TermBags:
    """Contexts of distinct terms. The n-th most frequent term has 1/n of the first's weight."""
    weights = _cumulative_term_weights()
    # Twice as many terms as needed are drawn, because some are drawn repeatedly.
    points = rng.random((count, 2 * TERMS_PER_CONTEXT)) * weights[-1]
    terms = np.searchsorted(weights, points).astype(np.int32)
    terms.sort(axis=1)
    is_first_occurrence = np.ones(terms.shape, dtype=bool)
    is_first_occurrence[:, 1:] = terms[:, 1:] != terms[:, :-1]
    # Of the distinct terms of a context, those with the lowest random numbers are selected.
    lots = np.where(is_first_occurrence, rng.random(terms.shape), 2.0)
    highest_lots = np.partition(lots, TERMS_PER_CONTEXT - 1, axis=1)[:, TERMS_PER_CONTEXT - 1]
    is_selected = is_first_occurrence & (lots <= highest_lots[:, np.newaxis])
    return is_selected.sum(axis=1), terms[is_selected]


def make_event(sequence: int, terms: TermIds) -> CorpusEvent:
    """The event with a sequence number and a context, at that number of seconds."""
    term_counts = dict.fromkeys(map("t={}".format, terms.tolist()), 1)
    return CorpusEvent(
        sequence * MICROS_PER_SECOND,
        make_event_id(sequence),
        sequence=sequence,
        term_counts=term_counts,
    )


def make_event_id(sequence: int) -> str:
    """A UUID whose order says nothing of the time, as those of events."""
    digits = f"{sequence * _ID_FACTOR % (1 << 128):032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def search(index: Index, terms: TermIds) -> Comparison:
    """Find the `K` events of all chunks that are most similar to a new one with these terms."""
    event = make_event(index.last_sequence + 1, terms)
    comparison = Comparison(
        event,
        index.pin_counts(event),
        measure=MEASURES["tfidf"],
        top=restore_top(K, []),
        before_ts=event.ts,
        max_sequence=index.last_sequence,
    )
    index.score([comparison], [TimeRange(None, _END_OF_TIME)])
    return comparison
