"""Contexts as term vectors, and how many contexts contain each term (Moirae, CIDR 2007, §3.5).

A context is a document and `attribute=value` a term. Terms are numbered by a vocabulary; contexts
are rows of a sparse matrix. No I/O.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from archiver.times import Micros

# Numbers of terms or attributes, or offsets into an array of terms.
Ids = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]

_INITIAL_CAPACITY = 1024  # elements


@dataclass(frozen=True, slots=True)
class ContextVector:
    """The terms of one context, ascending, and how often each occurs."""

    terms: Ids
    counts: Floats

    def to_binary(self) -> "ContextVector":
        """The same terms, each with count 1."""
        return replace(self, counts=np.ones(len(self.terms)))


class Vocabulary:
    """Numbers of terms and of their attributes, from 0, in the order of first use."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._terms: list[str] = []
        self._attribute_ids: dict[str, int] = {}
        # The attribute of each term.
        self._attributes = _GrowableArray(np.int32)

    def __len__(self) -> int:
        return len(self._terms)

    def encode(self, term_counts: Mapping[str, int]) -> ContextVector:
        """The vector of counted terms. Unknown terms are added to the vocabulary."""
        terms = self.encode_terms(term_counts)
        order = np.argsort(terms)
        counts = np.fromiter(term_counts.values(), np.float64, len(term_counts))
        return ContextVector(terms[order], counts[order])

    def encode_terms(self, terms: Iterable[str]) -> Ids:
        """The numbers of terms. Unknown terms are added to the vocabulary."""
        ids = self._ids
        numbers = [ids[term] if term in ids else self._add_term(term) for term in terms]
        return np.array(numbers, dtype=np.int32)

    def decode_terms(self, terms: Iterable[int]) -> list[str]:
        """The terms of some numbers."""
        return [self._terms[term] for term in terms]

    @property
    def attributes(self) -> Ids:
        """The number of each term's attribute: the text before the first `=`."""
        return self._attributes.prefix(len(self))

    def _add_term(self, term: str) -> int:
        term_id = self._ids[term] = len(self._terms)
        self._terms.append(term)
        attribute = term.partition("=")[0]
        attribute_id = self._attribute_ids.setdefault(attribute, len(self._attribute_ids))
        self._attributes.extend([attribute_id])
        return term_id


@dataclass(frozen=True)
class SparseRows:
    """Contexts, oldest first, as compressed sparse rows.

    Row i has the terms from `starts[i]` to before `starts[i + 1]`, with their counts and the
    squares of these.
    """

    starts: Ids
    terms: Ids
    counts: Floats
    squares: Floats
    width: int
    """All terms are below this number."""

    def __len__(self) -> int:
        return len(self.starts) - 1

    def slice_rows(self, first: int, last: int) -> "SparseRows":
        """The rows from `first` to before `last`. Terms and counts are views, not copies."""
        low, high = int(self.starts[first]), int(self.starts[last])
        starts = self.starts[first : last + 1] - self.starts[first]
        arrays = (self.terms[low:high], self.counts[low:high], self.squares[low:high])
        return SparseRows(starts, *arrays, self.width)

    def select_rows(self, rows: npt.NDArray[np.intp]) -> "SparseRows":
        """Copies of some rows, in the given order."""
        sizes = self.starts[rows + 1] - self.starts[rows]
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        positions = np.arange(starts[-1]) + np.repeat(self.starts[rows] - starts[:-1], sizes)
        arrays = (self.terms[positions], self.counts[positions], self.squares[positions])
        return SparseRows(starts, *arrays, self.width)

    def document_frequencies(self, width: int, rows: npt.NDArray[np.bool_] | None = None) -> Floats:
        """For each term below `width`, how many rows contain it.

        `rows`: a mask of the rows to count; None: all.
        """
        terms = self.terms
        if rows is not None:
            terms = terms[np.repeat(rows, np.diff(self.starts))]
        return np.bincount(terms, minlength=width).astype(np.float64)

    def to_binary(self) -> "SparseRows":
        """The same terms, each with count 1."""
        ones = np.ones(len(self.terms))
        return replace(self, counts=ones, squares=ones)

    def weighted_sums(self, weights: Floats) -> Floats:
        """For each row, the sum of count times weight over its terms. `weights`: by term."""
        return self._sums(self.counts, weights)

    def weighted_square_sums(self, weights: Floats) -> Floats:
        """For each row, the sum of count² times weight over its terms. `weights`: by term."""
        return self._sums(self.squares, weights)

    def _sums(self, values: Floats, weights: Floats) -> Floats:
        from scipy.sparse import csr_array  # a fifth of a second of processor time

        shape = (len(self), len(weights))
        matrix = csr_array((values, self.terms, self.starts), shape=shape, copy=False)
        sums: Floats = matrix @ weights
        return sums


class ContextVectors:
    """Contexts, oldest first. Adding one costs O(its terms), amortised.

    Rows that were returned before do not change.
    """

    def __init__(self, contexts: Iterable[ContextVector] = ()) -> None:
        self._starts = _GrowableArray(np.int32)
        self._terms = _GrowableArray(np.int32)
        self._counts = _GrowableArray(np.float64)
        self._squares = _GrowableArray(np.float64)
        self._width = 0
        self._starts.extend(np.zeros(1, dtype=np.int32))
        self.extend(list(contexts))

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, row: int) -> ContextVector:
        starts = self._starts.prefix(row + 2)
        terms, counts = self._terms.prefix(starts[-1]), self._counts.prefix(starts[-1])
        return ContextVector(terms[starts[row] :], counts[starts[row] :])

    def add(self, context: ContextVector) -> None:
        """Append the newest context."""
        self._terms.extend(context.terms)
        self._counts.extend(context.counts)
        self._squares.extend(context.counts**2)
        self._starts.extend(np.array([len(self._terms)], dtype=np.int32))
        if len(context.terms):
            self._width = max(self._width, int(context.terms[-1]) + 1)

    def extend(self, contexts: Sequence[ContextVector]) -> None:
        """Append contexts, the newest last: faster than one by one."""
        if not contexts:
            return
        terms = np.concatenate([context.terms for context in contexts])
        counts = np.concatenate([context.counts for context in contexts])
        sizes = [len(context.terms) for context in contexts]
        self._starts.extend(len(self._terms) + np.cumsum(sizes))
        self._terms.extend(terms)
        self._counts.extend(counts)
        self._squares.extend(counts**2)
        self._width = max(self._width, int(terms.max(initial=-1)) + 1)

    def oldest_rows(self, count: int) -> SparseRows:
        """The first `count` contexts, as views."""
        starts = self._starts.prefix(count + 1)
        size = int(starts[-1])
        arrays = (self._terms.prefix(size), self._counts.prefix(size), self._squares.prefix(size))
        return SparseRows(starts, *arrays, self._width)


@dataclass(frozen=True)
class CorpusCounts:
    """E and C_k at one moment. Stored with an answer, they make it reproducible."""

    event_count: int
    """E: how many events are counted."""
    document_frequencies: Floats
    """C_k by term. Terms that were seen later are beyond its end."""
    newest_ts: Micros | None
    """Time of the newest counted event; None: no event is counted."""
    attributes: Ids
    """The attribute of each term."""

    @cached_property
    def idf(self) -> Floats:
        """log10(E / C_k) by term. A term that no counted event contains weighs as if one did."""
        return self._idf(self.document_frequencies)

    def idf_up_to(self, width: int) -> Floats:
        """`idf` of the terms below `width`, which may be more than were counted."""
        missing = width - len(self.idf)
        if missing <= 0:
            return self.idf
        return np.concatenate([self.idf, self._idf(np.zeros(missing))])

    def _idf(self, document_frequencies: Floats) -> Floats:
        weights: Floats = np.log10(max(self.event_count, 1) / np.maximum(document_frequencies, 1))
        return weights


class Corpus:
    """The contexts of one event type in (ts, ID) order, with E and C_k of all of them."""

    def __init__(self) -> None:
        self.vocabulary = Vocabulary()
        self.contexts = ContextVectors()
        self.times: list[Micros] = []
        """Event times."""
        self._counted_events = 0
        self._document_frequencies = np.zeros(_INITIAL_CAPACITY)

    def __len__(self) -> int:
        return len(self.times)

    def add(self, ts: Micros, term_counts: Mapping[str, int]) -> ContextVector:
        """Append an event and return its context. Raises `ValueError` if it is out of order."""
        if self.times and ts < self.times[-1]:
            raise ValueError("events must be added in the order of their times")
        context = self.vocabulary.encode(term_counts)
        self.times.append(ts)
        self.contexts.add(context)
        self._document_frequencies = _ensure_capacity(
            self._document_frequencies, len(self.vocabulary)
        )
        if self._is_counted(ts, context):
            self._counted_events += 1
            self._document_frequencies[context.terms] += 1
        return context

    def _is_counted(self, ts: Micros, context: ContextVector) -> bool:
        """Whether E and C_k count an event that is added."""
        return True

    def counts(self) -> CorpusCounts:
        """E and C_k as of now. They do not change when events are added."""
        newest_ts = None
        if self.times:
            newest_ts = self.times[-1]
        return CorpusCounts(
            event_count=self._counted_events,
            document_frequencies=self._document_frequencies[: len(self.vocabulary)].copy(),
            newest_ts=newest_ts,
            attributes=self.vocabulary.attributes,
        )


class _GrowableArray:
    """An array with spare capacity at its end."""

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
        """The first `size` elements, as a view."""
        return self._buffer[:size]


def _ensure_capacity(array: npt.NDArray[Any], size: int) -> npt.NDArray[Any]:
    """The array itself if it has `size` elements, else a longer copy, padded with zeros."""
    capacity = len(array)
    if size <= capacity:
        return array
    padding = np.zeros(max(size, 2 * capacity) - capacity, dtype=array.dtype)
    return np.concatenate([array, padding])
