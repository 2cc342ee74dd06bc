"""Contexts to search among: drawn terms by Zipf's law, an index of them, and the search whose time is taken."""

from functools import cache

import numpy as np
import numpy.typing as npt

from recall.similarity.index import Comparison, Index, Past, restored
from recall.similarity.measure import MEASURES
from recall.similarity.segment import Segment

K = 10
"""How many of the most alike are asked for."""
TERMS, WORDS = 40, 100_000
"""Terms of a context, and those there are."""
SECOND = 1_000_000
_FAR = 1 << 60

Terms = npt.NDArray[np.int32]
# Sizes of contexts, and their terms one after the other.
Bags = tuple[npt.NDArray[np.int64], Terms]


def empty() -> Index:
    """An index that knows the words."""
    index = Index()
    index.vocabulary.numbered(f"t={word}" for word in range(WORDS))
    return index


def put(index: Index, chunk: int, bags: Bags) -> None:
    """Contexts of a chunk, a second apart."""
    sizes, terms = bags
    numbers = np.arange(index.number + 1, index.number + 1 + len(sizes))
    eids = np.array([f"{number:09}".encode() for number in numbers.tolist()])
    index.put(Segment.made(chunk, numbers * SECOND, eids, numbers, sizes, terms, np.ones(len(terms))))


@cache
def _weights() -> npt.NDArray[np.float64]:
    return np.cumsum(1 / np.arange(1, WORDS + 1))


def zipf(rng: np.random.Generator, count: int) -> Bags:
    """Contexts of different terms each, the n-th most frequent term 1/n as frequent as the first."""
    weights = _weights()
    drawn = np.searchsorted(weights, rng.random((count, 2 * TERMS)) * weights[-1]).astype(np.int32)
    drawn.sort(axis=1)
    first = np.ones(drawn.shape, dtype=bool)
    first[:, 1:] = drawn[:, 1:] != drawn[:, :-1]
    # As many as wanted of the different ones, by lot.
    lots = np.where(first, rng.random(drawn.shape), 2.0)
    kept = first & (lots <= np.partition(lots, TERMS - 1, axis=1)[:, TERMS - 1 : TERMS])
    return kept.sum(axis=1), drawn[kept]


def event(number: int, terms: Terms) -> Past:
    """The event of a number, with a context."""
    return Past(number * SECOND, f"{number:09}", number, {f"t={word}": 1 for word in terms.tolist()})


def search(index: Index, terms: Terms) -> Comparison:
    """The `K` events of all chunks that are most like one that comes in now."""
    new = event(index.number + 1, terms)
    one = Comparison(new, index.pin(new), MEASURES["tfidf"], restored(K, []), new.ts, index.number)
    index.score([one], [(None, _FAR)])
    return one
