"""Contexts as bags of counted terms, and how many contexts hold each term (Moirae, CIDR 2007, §3.5).

A context is a document and `attribute=value` a term. Terms are numbers here, contexts rows of a sparse matrix.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

_INITIAL_CAPACITY = 1024


@dataclass(frozen=True, slots=True)
class ContextVector:
    """The terms of one context, ascending, and how often each occurs."""

    terms: Ids
    counts: Floats

    def to_binary(self) -> "ContextVector":
        """The same terms, once each."""
        return replace(self, counts=np.ones(len(self.terms)))


class Vocabulary:
    """Terms as numbers, and their attributes, both in the order in which they were first seen."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._terms: list[str] = []
        self._attribute_ids: dict[str, int] = {}
        self._attributes = _GrowableArray(np.int32)

    def __len__(self) -> int:
        return len(self._terms)

    def encode(self, term_counts: Mapping[str, int]) -> ContextVector:
        """A bag of terms as numbers; terms not seen before are added."""
        bag = sorted((self._term_id(term), count) for term, count in term_counts.items())
        terms = np.array([term for term, _ in bag], dtype=np.int32)
        return ContextVector(terms, np.array([count for _, count in bag], dtype=np.float64))

    def encode_terms(self, terms: Iterable[str]) -> Ids:
        """Terms as numbers; those not seen before are added."""
        return np.fromiter((self._term_id(word) for word in terms), dtype=np.int32)

    def decode_terms(self, terms: Iterable[int]) -> list[str]:
        """Numbers as terms."""
        return [self._terms[term] for term in terms]

    @property
    def attributes(self) -> Ids:
        """The number of each term's attribute, which is what stands before its first `=`."""
        return self._attributes.prefix(len(self))

    def _term_id(self, term: str) -> int:
        found = self._ids.setdefault(term, len(self._terms))
        if found == len(self._terms):
            self._terms.append(term)
            name = term.partition("=")[0]
            self._attributes.extend(
                [self._attribute_ids.setdefault(name, len(self._attribute_ids))]
            )
        return found


@dataclass(frozen=True)
class SparseRows:
    """Contexts, old to new, as compressed sparse rows: row i holds the terms from `starts[i]` to `starts[i + 1]`."""

    starts: Ids
    terms: Ids
    counts: Floats
    squares: Floats
    width: int
    """Terms are below this number."""

    def __len__(self) -> int:
        return len(self.starts) - 1

    def slice_rows(self, first: int, last: int) -> "SparseRows":
        """The rows from `first` to before `last`, their terms not copied."""
        low, high = int(self.starts[first]), int(self.starts[last])
        starts = self.starts[first : last + 1] - self.starts[first]
        arrays = (self.terms[low:high], self.counts[low:high], self.squares[low:high])
        return SparseRows(starts, *arrays, self.width)

    def document_frequencies(self, width: int, rows: npt.NDArray[np.bool_] | None = None) -> Floats:
        """For each term below `width`, how many rows hold it; `rows`: only of these."""
        terms = self.terms if rows is None else self.terms[np.repeat(rows, np.diff(self.starts))]
        return np.bincount(terms, minlength=width).astype(np.float64)

    def to_binary(self) -> "SparseRows":
        """The same terms, once each."""
        once = np.ones(len(self.terms))
        return replace(self, counts=once, squares=once)

    def weighted_sums(self, weights: Floats) -> Floats:
        """For each row, the sum of the weights of its terms, each times its count."""
        return self._sums(self.counts, weights)

    def weighted_square_sums(self, weights: Floats) -> Floats:
        """For each row, the sum of the weights of its terms, each times its count squared."""
        return self._sums(self.squares, weights)

    def _sums(self, values: Floats, weights: Floats) -> Floats:
        matrix = csr_array(
            (values, self.terms, self.starts), shape=(len(self), len(weights)), copy=False
        )
        sums: Floats = matrix @ weights
        return sums


class ContextVectors:
    """Contexts, old to new. Adding one is O(its terms); rows given out before stay as they are."""

    def __init__(self, contexts: Iterable[ContextVector] = ()) -> None:
        self._starts = _GrowableArray(np.int32)
        self._terms = _GrowableArray(np.int32)
        self._counts = _GrowableArray(np.float64)
        self._squares = _GrowableArray(np.float64)
        self._width = 0
        self._starts.extend(np.zeros(1, dtype=np.int32))
        for context in contexts:
            self.add(context)

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, row: int) -> ContextVector:
        starts = self._starts.prefix(row + 2)
        terms, counts = self._terms.prefix(starts[-1]), self._counts.prefix(starts[-1])
        return ContextVector(terms[starts[row] :], counts[starts[row] :])

    def add(self, context: ContextVector) -> None:
        """Add the newest context."""
        self._terms.extend(context.terms)
        self._counts.extend(context.counts)
        self._squares.extend(context.counts**2)
        self._starts.extend(np.array([len(self._terms)], dtype=np.int32))
        if len(context.terms):
            self._width = max(self._width, int(context.terms[-1]) + 1)

    def oldest_rows(self, count: int) -> SparseRows:
        """The first `rows` contexts, not copied."""
        starts = self._starts.prefix(count + 1)
        size = int(starts[-1])
        arrays = (self._terms.prefix(size), self._counts.prefix(size), self._squares.prefix(size))
        return SparseRows(starts, *arrays, self._width)


@dataclass(frozen=True)
class CorpusCounts:
    """E and C_k at one moment: what an answer is computed with, kept with it so that it can be repeated."""

    event_count: int
    """E."""
    document_frequencies: Floats
    """C_k by term; terms seen later are beyond its end."""
    newest_ts: int | None
    """Event time of the newest event counted."""
    attributes: Ids
    """The attribute of each term."""

    @cached_property
    def idf(self) -> Floats:
        """log10(E / C_k). A term that no counted event holds weighs as if one did."""
        return self._idf(self.document_frequencies)

    def idf_up_to(self, width: int) -> Floats:
        """`idf` of the terms below `width`, which may be more than were counted."""
        missing = width - len(self.idf)
        return (
            self.idf if missing <= 0 else np.concatenate([self.idf, self._idf(np.zeros(missing))])
        )

    def _idf(self, holding: Floats) -> Floats:
        weights: Floats = np.log10(max(self.event_count, 1) / np.maximum(holding, 1))
        return weights


class Corpus:
    """The contexts of one event type in (ts, id) order, with E and C_k of those added so far."""

    def __init__(self) -> None:
        self.vocabulary = Vocabulary()
        self.contexts = ContextVectors()
        self.times: list[int] = []
        self._document_frequencies = np.zeros(_INITIAL_CAPACITY)

    def __len__(self) -> int:
        return len(self.times)

    def add(self, ts: int, term_counts: Mapping[str, int]) -> ContextVector:
        """Add the next event, which is not older than the last, and return its context."""
        if self.times and ts < self.times[-1]:
            raise ValueError("events enter the corpus in the order of their times")
        context = self.vocabulary.encode(term_counts)
        self.times.append(ts)
        self.contexts.add(context)
        self._document_frequencies = _ensure_capacity(
            self._document_frequencies, len(self.vocabulary)
        )
        self._document_frequencies[context.terms] += 1
        return context

    def counts(self) -> CorpusCounts:
        """E and C_k as of now; they do not change when more is added."""
        holding = self._document_frequencies[: len(self.vocabulary)].copy()
        return CorpusCounts(
            len(self), holding, self.times[-1] if self.times else None, self.vocabulary.attributes
        )


class _GrowableArray:
    """An array with room at its end."""

    def __init__(self, dtype: Any) -> None:
        self._buffer = np.zeros(_INITIAL_CAPACITY, dtype=dtype)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def extend(self, values: Sequence[Any] | npt.NDArray[Any]) -> None:
        end = self._size + len(values)
        self._buffer = _ensure_capacity(self._buffer, end)
        self._buffer[self._size : end] = values
        self._size = end

    def prefix(self, size: int) -> npt.NDArray[Any]:
        return self._buffer[:size]


def _ensure_capacity(held: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """The same array, or a longer copy with zeros at its end."""
    if size <= len(held):
        return held
    return np.concatenate([held, np.zeros(max(size, 2 * len(held)) - len(held), dtype=held.dtype)])
