"""Contexts to search among: drawn terms by Zipf's law, an index of them, and the search whose time
is taken.
"""

from functools import cache

import numpy as np
import numpy.typing as npt

from archiver.time_range import TimeRange
from recall.similarity import MEASURES, Comparison, CorpusEvent, Index, Segment, restore_top

K = 10
"""How many of the most alike are asked for."""
TERMS_PER_CONTEXT, VOCABULARY_SIZE = 40, 100_000
"""Terms of a context, and those there are."""
MICROS_PER_SECOND = 1_000_000
_END_OF_TIME = 1 << 60

TermIds = npt.NDArray[np.int32]
# Sizes of contexts, and their terms one after the other.
TermBags = tuple[npt.NDArray[np.int64], TermIds]


def empty_index() -> Index:
    """An index that knows the words."""
    index = Index()
    index.vocabulary.encode_terms(f"t={word}" for word in range(VOCABULARY_SIZE))
    return index


def put_contexts(index: Index, chunk: int, bags: TermBags) -> None:
    """Contexts of a chunk, a second apart."""
    sizes, terms = bags
    numbers = np.arange(index.last_sequence + 1, index.last_sequence + 1 + len(sizes))
    eids = np.array([f"{number:09}".encode() for number in numbers.tolist()])
    index.add_segment(
        Segment.from_rows(
            chunk, numbers * MICROS_PER_SECOND, eids, numbers, sizes, terms, np.ones(len(terms))
        )
    )


@cache
def _weights() -> npt.NDArray[np.float64]:
    return np.cumsum(1 / np.arange(1, VOCABULARY_SIZE + 1))


def draw_contexts(rng: np.random.Generator, count: int) -> TermBags:
    """Contexts of different terms each, the n-th most frequent term 1/n as frequent as the first."""
    weights = _weights()
    drawn = np.searchsorted(
        weights, rng.random((count, 2 * TERMS_PER_CONTEXT)) * weights[-1]
    ).astype(np.int32)
    drawn.sort(axis=1)
    first = np.ones(drawn.shape, dtype=bool)
    first[:, 1:] = drawn[:, 1:] != drawn[:, :-1]
    # As many as wanted of the different ones, by lot.
    lots = np.where(first, rng.random(drawn.shape), 2.0)
    kept = first & (
        lots
        <= np.partition(lots, TERMS_PER_CONTEXT - 1, axis=1)[
            :, TERMS_PER_CONTEXT - 1 : TERMS_PER_CONTEXT
        ]
    )
    return kept.sum(axis=1), drawn[kept]


def make_event(number: int, terms: TermIds) -> CorpusEvent:
    """The event of a number, with a context."""
    return CorpusEvent(
        number * MICROS_PER_SECOND,
        f"{number:09}",
        number,
        {f"t={word}": 1 for word in terms.tolist()},
    )


def search(index: Index, terms: TermIds) -> Comparison:
    """The `K` events of all chunks that are most like one that comes in now."""
    new = make_event(index.last_sequence + 1, terms)
    one = Comparison(
        new,
        index.pin_counts(new),
        MEASURES["tfidf"],
        restore_top(K, []),
        new.ts,
        index.last_sequence,
    )
    index.score([one], [TimeRange(None, _END_OF_TIME)])
    return one
