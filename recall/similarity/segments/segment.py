"""Immutable groups of contexts: rows, inverted lists, and bounds of the scores of their rows.

A segment has at most `MAX_SEGMENT_ROWS` contexts, so that a row number fits in 16 bits and the sums
of a search stay in the processor's cache. A posting uses 8 bytes: 4 + 1 in its row and 2 + 1 in its
inverted list (more if a term occurs 256 times or more in a context). No I/O.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from archiver.time_range import TimeRange
from recall.similarity.events import CorpusEvent, EventKey
from recall.similarity.measures import ContextVector, Floats, Ids, SparseRows, Vocabulary
from recall.similarity.numeric import NO_VALUES, NumericValues, flatten_values
from recall.similarity.segments import kernel
from recall.similarity.segments.inverted_lists import build_postings
from recall.similarity.segments.pinned_counts import PinnedCounts, SearchQuery
from recall.similarity.segments.row_scores import copy_rows

Array = npt.NDArray[Any]
RowMask = npt.NDArray[np.bool_]

MAX_SEGMENT_ROWS = 1 << 16
# Bounds are rebuilt when log10(E) has grown by this, about 5 % of E.
_MAX_LOG_GROWTH = 0.02

# With these counts every term weighs 1: log10(10 / 1).
_UNIFORM_COUNTS = PinnedCounts(
    event_count=10,
    base_frequencies=np.zeros(0),
    changed_terms=np.empty(0, dtype=np.int32),
    frequency_changes=np.zeros(0),
    newest_ts=None,
)

# The arrays of a segment, by their names on disk:
#   ts, eids, numbers           by row: event time, event ID, sequence number
#   starts, terms, counts       rows: the terms of row i are starts[i] to before starts[i + 1]
#   heads, docs, times          inverted lists: those of term t are heads[t] to before heads[t + 1]
#   rows, attributes, values    numeric values, by row and attribute
# Terms are numbered within the segment; `Segment.term_ids` has their numbers in the vocabulary.
ARRAYS = (
    "ts",
    "eids",
    "numbers",
    "starts",
    "terms",
    "counts",
    "heads",
    "docs",
    "times",
    "rows",
    "attributes",
    "values",
)
# The arrays that change with E and C_k, see `kernel.build_bounds`: by term log10(C_k) (`logs`) and
# the maximum of tf/norm (`impacts`); by row sums (`squares`, `once`, `twice`) and an upper bound of
# 1/norm (`inverses`).
BOUNDS = ("logs", "squares", "once", "twice", "inverses", "impacts")
_BUILD_ARRAYS = ("starts", "terms", "counts", *BOUNDS)
_UPDATE_ARRAYS = ("starts", "terms", "counts", "heads", "docs", "times", *BOUNDS)

# Arrays as positional arguments of the kernel. A search runs over dozens of segments, so looking
# them up must be fast.
_build_arguments = itemgetter(*_BUILD_ARRAYS)
_update_arguments = itemgetter(*_UPDATE_ARRAYS)
_search_arguments = itemgetter(*_UPDATE_ARRAYS, "numbers")


class SegmentFile(NamedTuple):
    """A file of a segment. `size`: bytes; `checksum`: CRC-32."""

    name: str
    size: int
    checksum: int


class StoredArrays(NamedTuple):
    """The arrays of a segment as its file has them: they use memory as far as they were read.

    `log_event_count`: that of their bounds. `drop_pages`: gives that memory back.
    """

    arrays: Mapping[str, Array]
    log_event_count: float
    drop_pages: Callable[[], None]


@dataclass(frozen=True)
class SegmentRows:
    """Rows in (ts, event ID) order.

    `sizes`: the number of terms by row; `terms` and `counts`: those of all rows, concatenated.
    """

    ts: npt.NDArray[np.int64]
    eids: npt.NDArray[np.bytes_]
    sequences: npt.NDArray[np.int64]
    sizes: npt.NDArray[np.int64]
    terms: Ids
    counts: Floats
    numeric: NumericValues = NO_VALUES


class RowsOfSegment(NamedTuple):
    """Some rows of a segment."""

    segment: "Segment"
    rows: npt.NDArray[np.int64]


class BoundedRows(NamedTuple):
    """Rows of a segment with upper bounds of their scores; no other row is above `others_bound`.

    `bounds`: without what skipped inverted lists can add, which is `skipped_bound`.
    """

    rows: npt.NDArray[np.int64]
    bounds: Floats
    skipped_bound: float
    others_bound: float


class KnownRows(NamedTuple):
    """Rows of a segment, ascending, about which more is known than their contexts.

    `offsets`: what is added to a row's score by TF-IDF to estimate another score.
    """

    rows: npt.NDArray[np.int64]
    offsets: Floats

    def slice_rows(self, first: int, last: int) -> "KnownRows":
        """Those from row `first` to before row `last`."""
        if not len(self.rows) or (first <= self.rows[0] and self.rows[-1] < last):
            return self
        low, high = np.searchsorted(self.rows, (first, last))
        return KnownRows(self.rows[low:high], self.offsets[low:high])


class SearchBuffers:
    """Scratch memory that consecutive searches share.

    `sums` and `gain_by_term` are all zeros between searches. Logarithms are expensive:
    `squared_idf_by_term` has the IDF² of those terms that a search needed, whose number is
    `search_by_term`.
    """

    def __init__(self) -> None:
        self.sums = np.zeros(MAX_SEGMENT_ROWS, dtype=np.float32)
        self.gain_by_term = np.zeros(0)
        self.squared_idf_by_term = np.zeros(0)
        self.search_by_term = np.zeros(0, dtype=np.int64)
        self.search_number = 0

    def begin(self, width: int) -> None:
        """Make room for at least `width` terms, for a new search."""
        if len(self.gain_by_term) < width:
            self.gain_by_term = np.zeros(2 * width)
            self.squared_idf_by_term = np.zeros(2 * width)
            self.search_by_term = np.zeros(2 * width, dtype=np.int64)
        self.search_number += 1


class Segment:
    """Contexts of one chunk in (ts, event ID) order."""

    def __init__(
        self,
        chunk: int,
        arrays: Mapping[str, Array],
        term_ids: Ids,
        log_event_count: float | None = None,
    ) -> None:
        """`arrays`: those named in `ARRAYS`, optionally with those in `BOUNDS`.

        `term_ids`: the segment's terms by their numbers in the vocabulary. `log_event_count`:
        log10(E) for which the bounds were built; None: there are no bounds.
        """
        self.chunk = chunk
        self.arrays: dict[str, Array] = {}
        for name, array in arrays.items():
            # Bounds are updated in place. All other arrays may be memory-mapped; read-only views
            # of all of them have one type, so that numba compiles once.
            self.arrays[name] = array.copy() if name in BOUNDS else _read_only(array)
        self.term_ids = term_ids
        self._order = np.argsort(term_ids).astype(np.int32)
        self._sorted_ids = term_ids[self._order]
        self.log_event_count = log_event_count
        self.journal_position = 0
        """Up to which position of the index's journal the bounds are up to date."""
        self.file: SegmentFile | None = None
        """The file on disk; None: not saved."""
        self.stored: StoredArrays | None = None
        """What the file has; None: not mapped."""
        self.is_released = False
        """Whether `arrays` are those of the file, with bounds that are not up to date."""

    @classmethod
    def from_events(
        cls, chunk: int, events: Sequence[CorpusEvent], vocabulary: Vocabulary
    ) -> "Segment":
        """Build a segment from events in any order."""
        ordered = sorted(events, key=lambda event: event.key)
        contexts = [vocabulary.encode(event.term_counts) for event in ordered]
        rows = SegmentRows(
            np.array([event.ts for event in ordered], dtype=np.int64),
            np.array([event.eid.encode() for event in ordered], dtype=np.bytes_),
            np.array([event.sequence for event in ordered], dtype=np.int64),
            np.array([len(context.terms) for context in contexts]),
            np.concatenate([context.terms for context in contexts]),
            np.concatenate([context.counts for context in contexts]),
            flatten_values(event.numeric_values for event in ordered),
        )
        return cls.from_rows(chunk, rows)

    @classmethod
    def from_rows(cls, chunk: int, rows: SegmentRows) -> "Segment":
        """Build a segment from rows."""
        counts = rows.counts
        numeric = rows.numeric
        term_ids, local_terms = np.unique(rows.terms, return_inverse=True)
        stored_counts: Array
        if counts.max(initial=0) < 256:
            stored_counts = counts.astype(np.uint8)
        else:
            stored_counts = counts.astype(np.float64)
        starts = np.concatenate([[0], np.cumsum(rows.sizes)]).astype(np.int64)
        local_terms = local_terms.astype(np.int32)
        heads = np.zeros(len(term_ids) + 1, dtype=np.int64)
        docs = np.empty(len(local_terms), dtype=np.uint16)
        times = np.empty(len(local_terms), dtype=stored_counts.dtype)
        build_postings(starts, local_terms, stored_counts, len(term_ids), heads, docs, times)
        arrays = {
            "ts": rows.ts,
            "eids": rows.eids,
            "numbers": rows.sequences,
            "starts": starts,
            "terms": local_terms,
            "counts": stored_counts,
            "heads": heads,
            "docs": docs,
            "times": times,
            "rows": numeric.rows,
            "attributes": numeric.attributes,
            "values": numeric.values,
        }
        return cls(chunk, arrays, term_ids.astype(np.int32))

    def __len__(self) -> int:
        return len(self.arrays["ts"])

    @property
    def values(self) -> NumericValues:
        """The numeric values of the rows."""
        return NumericValues(self.arrays["rows"], self.arrays["attributes"], self.arrays["values"])

    @cached_property
    def newest_sequence(self) -> int:
        return int(self.arrays["numbers"].max())

    @cached_property
    def key_range(self) -> tuple[EventKey, EventKey]:
        """The keys of the first and the last row, both inclusive."""
        return self.key(0), self.key(len(self) - 1)

    def key(self, row: int) -> EventKey:
        """The key of a row's event."""
        return int(self.arrays["ts"][row]), self.arrays["eids"][row].decode()

    def find_row(self, key: EventKey) -> int:
        """The first row whose key is not below `key`; the number of rows if there is none."""
        row = int(np.searchsorted(self.arrays["ts"], key[0]))
        while row < len(self) and self.key(row) < key:
            row += 1
        return row

    def rows_between(self, span: TimeRange) -> tuple[int, int]:
        """The first row with a time in a span, and the row after the last."""
        ts = self.arrays["ts"]
        (oldest, _), (newest, _) = self.key_range
        first, last = 0, len(self)
        if span.start is not None and span.start > oldest:
            first = int(np.searchsorted(ts, span.start))
        if span.end is not None and span.end <= newest:
            last = int(np.searchsorted(ts, span.end))
        return first, last

    def counted_rows(self, up_to: EventKey, max_sequence: int) -> RowMask | None:
        """A mask of the rows that have a key up to `up_to` and a sequence up to `max_sequence`.

        None: all rows.
        """
        if self.newest_sequence <= max_sequence and self.key_range[1] <= up_to:
            return None
        counted: RowMask = self.arrays["numbers"] <= max_sequence
        counted[self.find_row((up_to[0], up_to[1] + "\0")) :] = False
        return counted

    def document_frequencies(self, rows: RowMask | None = None) -> Floats:
        """For each of `term_ids`, how many rows contain it. `rows`: count only these."""
        if rows is None:
            frequencies: Floats = np.diff(self.arrays["heads"]).astype(np.float64)
            return frequencies
        terms = self.arrays["terms"][np.repeat(rows, np.diff(self.arrays["starts"]))]
        return np.bincount(terms, minlength=len(self.term_ids)).astype(np.float64)

    def context(self, row: int) -> ContextVector:
        """The context of a row."""
        low, high = self._term_range(row, row + 1)
        terms = self.term_ids[self.arrays["terms"][low:high]]
        counts = self.arrays["counts"][low:high].astype(np.float64)
        order = np.argsort(terms)
        return ContextVector(terms[order], counts[order])

    def sparse_rows(self, first: int, last: int) -> SparseRows:
        """The rows from `first` to before `last`, with terms numbered by the vocabulary."""
        low, high = self._term_range(first, last)
        counts = self.arrays["counts"][low:high].astype(np.float64)
        return SparseRows(
            starts=(self.arrays["starts"][first : last + 1] - low).astype(np.int32),
            terms=self.term_ids[self.arrays["terms"][low:high]],
            counts=counts,
            squares=counts**2,
            width=int(self.term_ids.max(initial=-1)) + 1,
        )

    def row_sizes(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The number of terms of some rows."""
        starts = self.arrays["starts"]
        sizes: npt.NDArray[np.int64] = starts[rows + 1] - starts[rows]
        return sizes

    def _term_range(self, first: int, last: int) -> tuple[int, int]:
        starts = self.arrays["starts"]
        return int(starts[first]), int(starts[last])

    # Memory

    @property
    def memory_bytes(self) -> int:
        """The bytes that `release` gives back, if all of them were read."""
        return sum(array.nbytes for array in self.arrays.values())

    def release(self, stored: StoredArrays) -> None:
        """Give back the memory of the arrays; they are read from the file when they are needed."""
        if not self.is_released or stored is not self.stored:
            self.stored = stored
            self.arrays = {name: _read_only(array) for name, array in stored.arrays.items()}
            self.log_event_count = stored.log_event_count
            self.is_released = True
        self.__dict__.pop("_set_arrays", None)
        stored.drop_pages()

    def restore_bounds(self, document_frequencies: Floats) -> None:
        """Load the bounds of a released segment, and adjust them to the current log10(C_k)."""
        for name in BOUNDS:
            self.arrays[name] = self.arrays[name].copy()
        self.is_released = False
        logs = np.log10(np.maximum(document_frequencies[self._sorted_ids], 1))
        self.update_bounds(self._sorted_ids, logs)

    # Bounds

    def has_stale_bounds(self, log_event_count: float) -> bool:
        """Whether the bounds must be rebuilt. `log_event_count`: log10(E) now."""
        if self.log_event_count is None:
            return True
        return log_event_count > self.log_event_count + _MAX_LOG_GROWTH

    def rebuild_bounds(self, log_event_count: float, document_frequencies: Floats) -> None:
        """Compute the bounds from log10(E) and C_k by term, as they are now."""
        logs = np.log10(np.maximum(document_frequencies[self.term_ids], 1))
        self.arrays |= self._allocate_bounds(np.minimum(logs, log_event_count))
        self.is_released = False
        self.log_event_count = log_event_count
        kernel.build_bounds(log_event_count, *_build_arguments(self.arrays))

    def update_bounds(self, terms: Ids, new_logs: Floats) -> None:
        """Adjust the bounds to the current log10(C_k) of the terms that have changed."""
        kernel.update_bounds(
            terms,
            new_logs,
            self.log_event_count,
            self._sorted_ids,
            self._order,
            *_update_arguments(self.arrays),
        )

    def _arrays_for(self, query: SearchQuery) -> tuple[float | None, Mapping[str, Array]]:
        """log10(E) of the bounds that hold for a query, and all arrays."""
        if query.is_set:
            return 1.0, self._set_arrays
        return self.log_event_count, self.arrays

    @cached_property
    def _set_arrays(self) -> Mapping[str, Array]:
        """The arrays with contexts as sets: counts 1 and log10(C_k) = 0, so that bounds stay."""
        ones = _read_only(np.ones(len(self.arrays["terms"]), dtype=np.uint8))
        arrays: dict[str, Array] = dict(self.arrays, counts=ones, times=ones)
        arrays |= self._allocate_bounds(np.zeros(len(self.term_ids)))
        kernel.build_bounds(1.0, *_build_arguments(arrays))
        return arrays

    def _allocate_bounds(self, logs: Floats) -> dict[str, Array]:
        """Uninitialised arrays of bounds. `logs`: log10(C_k) by term."""
        return {
            "logs": logs,
            "squares": np.empty(len(self)),
            "once": np.empty(len(self)),
            "twice": np.empty(len(self)),
            "inverses": np.empty(len(self), dtype=np.float32),
            "impacts": np.empty(len(self.term_ids), dtype=np.float32),
        }

    def score_bound(self, query: SearchQuery, known_norms: bool) -> float:
        """An upper bound of the score of any row.

        `known_norms`: the bounds of norms hold for the query's counts. Without them, only the
        query's weights limit the score.
        """
        if not len(query.terms):
            return 0.0
        _, arrays = self._arrays_for(query)
        if known_norms and not query.is_set:
            self.update_bounds(query.terms, query.log_frequencies)
        impacts = np.empty(0, dtype=np.float32)
        if known_norms:
            impacts = arrays["impacts"]
        local_terms = np.empty(len(query.terms), dtype=np.int64)
        remaining = np.empty(len(query.terms) + 1)
        kernel.remaining_bounds(
            query.terms,
            query.gains,
            query.weights,
            query.norm,
            self._sorted_ids,
            self._order,
            impacts,
            local_terms,
            remaining,
        )
        return float(remaining[0])

    def expected_score(self, query: SearchQuery) -> float:
        """An estimate of the best row's score, for ranking segments; not a bound.

        It is high if rare terms of the query weigh much in some row, and higher if many rows
        contain them, because these may be the same rows.
        """
        if not len(self._sorted_ids):
            return 0.0
        positions = np.searchsorted(self._sorted_ids, query.terms)
        positions = np.minimum(positions, len(self._sorted_ids) - 1)
        present = self._sorted_ids[positions] == query.terms
        terms = self._order[positions[present]]
        impacts, heads = self.arrays["impacts"][terms], self.arrays["heads"]
        gain_limits = query.gains[present] * np.minimum(impacts, 1e30)
        parts = np.minimum(query.weights[present], gain_limits) / (query.norm or 1.0)
        row_counts = heads[terms + 1] - heads[terms]
        return float(np.sum(parts**2 * np.sqrt(row_counts)))

    def search(
        self,
        query: SearchQuery,
        pinned: PinnedCounts,
        *,
        max_sequence: int,
        rows: tuple[int, int],
        k: int,
        min_score: float,
        buffers: SearchBuffers,
    ) -> tuple[npt.NDArray[np.int64], Floats]:
        """The k best rows that score at least `min_score`, best first, and their scores.

        `rows`: the first row to search and the row after the last.
        """
        best_rows, scores = np.empty(k, dtype=np.int64), np.empty(k)
        log_event_count, arrays = self._arrays_for(query)
        if query.is_set:
            pinned = _UNIFORM_COUNTS
        buffers.begin(len(self.term_ids))
        hit_count = kernel.search(
            query.terms,
            query.log_frequencies,
            log_event_count,
            query.gains,
            query.weights,
            query.norm,
            float(max(pinned.event_count, 1)),
            pinned.base_frequencies,
            pinned.changed_terms,
            pinned.frequency_changes,
            self._sorted_ids,
            self._order,
            self.term_ids,
            *_search_arguments(arrays),
            *rows,
            max_sequence,
            k,
            min_score,
            buffers.sums,
            buffers.gain_by_term,
            buffers.squared_idf_by_term,
            buffers.search_by_term,
            buffers.search_number,
            best_rows,
            scores,
        )
        return best_rows[:hit_count], scores[:hit_count]

    def search_bounds(
        self,
        query: SearchQuery,
        known_rows: KnownRows,
        *,
        max_sequence: int,
        rows: tuple[int, int],
        max_counts: tuple[int, int],
        least: tuple[float, float],
        buffers: SearchBuffers,
    ) -> tuple[BoundedRows, BoundedRows]:
        """The rows with the highest upper bounds of their scores, and those of `known_rows` with
        the highest bounds of their estimates. No score is computed.

        `max_counts` and `least`: of both, how many rows at most, and the score and the estimate that
        they must be able to reach. `known_rows` has no rows outside of `rows`.
        """
        log_event_count, arrays = self._arrays_for(query)
        best_rows, bounds = np.empty(max_counts[0], dtype=np.int64), np.empty(max_counts[0])
        estimated_rows, estimates = np.empty(max_counts[1], dtype=np.int64), np.empty(max_counts[1])
        count, skipped_bound, others_bound, estimated_count, others_estimate = kernel.search_bounds(
            query.terms,
            query.log_frequencies,
            log_event_count,
            query.gains,
            query.weights,
            query.norm,
            self._sorted_ids,
            self._order,
            *_search_arguments(arrays),
            *rows,
            max_sequence,
            least[0],
            buffers.sums,
            best_rows,
            bounds,
            *known_rows,
            least[1],
            estimated_rows,
            estimates,
        )
        return (
            BoundedRows(best_rows[:count], bounds[:count], skipped_bound, others_bound),
            BoundedRows(
                estimated_rows[:estimated_count],
                estimates[:estimated_count],
                0.0,
                others_estimate,
            ),
        )


def _read_only(array: Array) -> Array:
    """A read-only view."""
    view = array.view()
    view.flags.writeable = False
    return view


def gather_rows(parts: Sequence[RowsOfSegment]) -> SparseRows:
    """Copies of rows of some segments, with terms numbered by the vocabulary."""
    sizes = [np.zeros(1, dtype=np.int64), *(segment.row_sizes(rows) for segment, rows in parts)]
    starts = np.cumsum(np.concatenate(sizes)).astype(np.int32)
    terms, counts = np.empty(starts[-1], dtype=np.int32), np.empty(starts[-1])
    position = 0
    for segment, rows in parts:
        source = segment.arrays
        position = copy_rows(
            rows,
            source["starts"],
            source["terms"],
            source["counts"],
            segment.term_ids,
            position,
            terms,
            counts,
        )
    return SparseRows(starts, terms, counts, counts**2, int(terms.max(initial=-1)) + 1)
