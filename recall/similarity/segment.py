"""Contexts that were put together once and stay: rows, inverted lists, and bounds of what any of them can score.

At most `ROWS` contexts, so that a row is a number of 16 bits and the sums of a search stay in the processor's cache.
A posting costs 8 bytes: 4 + 1 in its row, 2 + 1 in its list (more where a term occurs 256 times or more).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from recall.similarity import kernel
from recall.similarity.corpus import ContextVector, Floats, Ids, SparseRows, Vocabulary
from recall.similarity.numeric import NO_VALUES, NumericValues, flatten_values

MAX_SEGMENT_ROWS = 1 << 16
# Bounds are made anew when log E has grown by so much, by some 5 % of E.
_MAX_LEVEL_GROWTH = 0.02

EventKey = tuple[int, str]


@dataclass(frozen=True, slots=True)
class CorpusEvent:
    """An event of the corpus: its number tells when it came in, `facts` how often its context holds each term,
    `numbers` the values of numeric attributes, these by number."""

    ts: int
    eid: str
    sequence: int
    term_counts: Mapping[str, int]
    numeric_values: Mapping[int, Sequence[float]] = field(default_factory=dict)

    @property
    def key(self) -> EventKey:
        return self.ts, self.eid


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A context as the kernel wants it: terms that weigh, the rarest first; see `kernel.search`. `sets`: contexts are
    compared as sets of terms that all weigh 1."""

    terms: Ids
    gains: Floats
    weights: Floats
    norm: float
    log_frequencies: Floats
    is_set: bool = False


@dataclass(frozen=True)
class PinnedCounts:
    """E and C_k of one question: what the index holds, and a few changes; how they are kept in bulk is shared."""

    event_count: int
    base_frequencies: Floats
    """C_k by term; terms beyond its end are held by none."""
    changed_terms: Ids
    """Ascending."""
    frequency_changes: Floats
    """What is to be added to the C_k of these."""
    newest_ts: int | None

    def document_frequencies(self, terms: Ids) -> Floats:
        """C_k of some terms, 1 at least."""
        found = np.zeros(len(terms))
        inside = terms < len(self.base_frequencies)
        found[inside] = self.base_frequencies[terms[inside]]
        places = np.searchsorted(self.changed_terms, terms)
        known = places < len(self.changed_terms)
        known[known] = self.changed_terms[places[known]] == terms[known]
        found[known] += self.frequency_changes[places[known]]
        held: Floats = np.maximum(found, 1)
        return held

    @property
    def log_event_count(self) -> float:
        """log E."""
        return math.log10(max(self.event_count, 1))

    def weighted_query(self, context: ContextVector) -> SearchQuery:
        """A context, weighed."""
        held = self.document_frequencies(context.terms)
        logs, idf = np.log10(held), np.log10(max(self.event_count, 1) / held)
        weights = context.counts * idf
        norm = math.sqrt(float(np.sum(weights**2)))
        order = np.argsort(-idf, kind="stable")
        order = order[weights[order] > 0]
        return SearchQuery(
            context.terms[order], (weights * idf)[order], weights[order], norm, logs[order]
        )

    def set_query(self, context: ContextVector) -> SearchQuery:
        """The set of a context's terms."""
        order = np.argsort(self.document_frequencies(context.terms), kind="stable")
        once = np.ones(len(order))
        return SearchQuery(
            context.terms[order],
            once,
            once,
            math.sqrt(len(order)),
            np.zeros(len(order)),
            is_set=True,
        )


# With these counts every term weighs 1.
_UNIFORM_COUNTS = PinnedCounts(10, np.zeros(0), np.empty(0, dtype=np.int32), np.zeros(0), None)


class SearchBuffers:
    """Scratch for searches, one after the other."""

    def __init__(self) -> None:
        self.sums = np.zeros(MAX_SEGMENT_ROWS, dtype=np.float32)
        self.gain_by_term = np.zeros(0)

    def reserve_terms(self, width: int) -> Floats:
        """Zeros by term."""
        if len(self.gain_by_term) < width:
            self.gain_by_term = np.zeros(2 * width)
        return self.gain_by_term


# What a segment consists of, as it is kept on disk. Those of `BOUNDS` change with E and C_k.
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
BOUNDS = ("logs", "squares", "once", "twice", "inverses", "impacts")
_UPDATE_ARRAYS = ("starts", "terms", "counts", "heads", "docs", "times", *BOUNDS)
# Some arrays, as arguments: of each of some tens of segments in every search.
_update_arguments, _search_arguments = (
    itemgetter(*_UPDATE_ARRAYS),
    itemgetter(*_UPDATE_ARRAYS, "numbers"),
)


class Segment:
    """Contexts in (ts, eid) order. `arrays` as named in `ARRAYS`, perhaps `BOUNDS`; `ids`: its terms' numbers."""

    def __init__(
        self,
        chunk: int,
        arrays: Mapping[str, npt.NDArray[Any]],
        term_ids: Ids,
        log_event_count: float | None = None,
    ) -> None:
        self.chunk = chunk
        # Bounds change; all else may lie in a file, and is compiled for once wherever it lies.
        self.arrays = {
            n: array.copy() if n in BOUNDS else _read_only(array) for n, array in arrays.items()
        }
        self.term_ids = term_ids
        self._order = np.argsort(term_ids).astype(np.int32)
        self._ids = term_ids[self._order]
        self.log_event_count = log_event_count
        """log E for which bounds were made; None: there are none."""
        self.journal_position = 0
        """How far in the index's journal of changed terms the bounds are up to date."""
        self.file: tuple[str, int, int] | None = None
        """Where it is kept: name, size, checksum."""

    @classmethod
    def from_events(
        cls, chunk: int, events: Sequence[CorpusEvent], vocabulary: Vocabulary
    ) -> "Segment":
        """From events in any order."""
        ordered = sorted(events, key=lambda past: past.key)
        contexts = [vocabulary.encode(past.term_counts) for past in ordered]
        sizes = np.array([len(context.terms) for context in contexts])
        return cls.from_rows(
            chunk,
            np.array([past.ts for past in ordered], dtype=np.int64),
            np.array([past.eid.encode() for past in ordered], dtype=np.bytes_),
            np.array([past.sequence for past in ordered], dtype=np.int64),
            sizes,
            np.concatenate([context.terms for context in contexts]),
            np.concatenate([context.counts for context in contexts]),
            flatten_values(past.numeric_values for past in ordered),
        )

    @classmethod
    def from_rows(
        cls,
        chunk: int,
        ts: npt.NDArray[np.int64],
        eids: npt.NDArray[np.bytes_],
        sequences: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
        terms: Ids,
        counts: Floats,
        numeric: NumericValues = NO_VALUES,
    ) -> "Segment":
        """From rows in order: how many terms each has, and these one after the other; and numbers."""
        ids, local = np.unique(terms, return_inverse=True)
        most = counts.max(initial=0)
        small = counts.astype(np.uint8 if most < 256 else np.float64)
        starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        local = local.astype(np.int32)
        heads = np.zeros(len(ids) + 1, dtype=np.int64)
        docs, times = np.empty(len(terms), dtype=np.uint16), np.empty(len(terms), dtype=small.dtype)
        kernel.build_postings(starts, local, small, len(ids), heads, docs, times)
        values = (
            ts,
            eids,
            sequences,
            starts,
            local,
            small,
            heads,
            docs,
            times,
            *vars(numeric).values(),
        )
        return cls(chunk, dict(zip(ARRAYS, values, strict=True)), ids.astype(np.int32))

    @classmethod
    def merge(cls, segments: Sequence["Segment"]) -> "Segment":
        """One of several of a chunk."""
        ts, eids, numbers = (
            np.concatenate([s.arrays[name] for s in segments]) for name in ("ts", "eids", "numbers")
        )
        order = np.lexsort((eids, ts))
        sizes = np.concatenate([np.diff(s.arrays["starts"]) for s in segments])
        firsts = np.cumsum(sizes) - sizes
        terms = np.concatenate([s.term_ids[s.arrays["terms"]] for s in segments])
        counts = np.concatenate([s.arrays["counts"].astype(np.float64) for s in segments])
        ends = np.cumsum(sizes[order])
        taken = np.repeat(firsts[order] - (ends - sizes[order]), sizes[order]) + np.arange(
            len(terms)
        )
        moved = np.argsort(order)  # where each row goes
        offsets = np.cumsum([0, *(len(s) for s in segments)])
        rows = np.concatenate(
            [moved[s.values.rows + offset] for s, offset in zip(segments, offsets, strict=False)]
        )
        attributes, values = (
            np.concatenate([s.arrays[name] for s in segments]) for name in ("attributes", "values")
        )
        place = np.lexsort((attributes, rows))
        numeric = NumericValues(rows[place], attributes[place], values[place])
        keys = ts[order], eids[order], numbers[order]
        return cls.from_rows(
            segments[0].chunk, *keys, sizes[order], terms[taken], counts[taken], numeric
        )

    def __len__(self) -> int:
        return len(self.arrays["ts"])

    @property
    def values(self) -> NumericValues:
        """The numbers of its rows."""
        return NumericValues(self.arrays["rows"], self.arrays["attributes"], self.arrays["values"])

    @cached_property
    def newest_sequence(self) -> int:
        return int(self.arrays["numbers"].max())

    @cached_property
    def key_range(self) -> tuple[EventKey, EventKey]:
        """The keys of its first and last event."""
        return self.key(0), self.key(len(self) - 1)

    def key(self, row: int) -> EventKey:
        """How the event of a row is named."""
        return int(self.arrays["ts"][row]), self.arrays["eids"][row].decode()

    def find_row(self, key: EventKey) -> int:
        """The first row that is not older than a key."""
        row = int(np.searchsorted(self.arrays["ts"], key[0]))
        while row < len(self) and self.key(row) < key:
            row += 1
        return row

    def rows_between(self, low: int | None, high: int) -> tuple[int, int]:
        """The rows whose time is in [low, high), from the first to before the last."""
        ts, ((oldest, _), (newest, _)) = self.arrays["ts"], self.key_range
        first = 0 if low is None or low <= oldest else int(np.searchsorted(ts, low))
        return first, len(self) if high > newest else int(np.searchsorted(ts, high))

    def counted_rows(self, up_to: EventKey, max_sequence: int) -> npt.NDArray[np.bool_] | None:
        """Which rows are of events up to a key, of those that came in up to a number; None: all."""
        if self.newest_sequence <= max_sequence and self.key_range[1] <= up_to:
            return None
        counted = self.arrays["numbers"] <= max_sequence
        counted[self.find_row((up_to[0], up_to[1] + "\0")) :] = False
        return counted

    def document_frequencies(self, rows: npt.NDArray[np.bool_] | None = None) -> Floats:
        """For each of `known`, how many rows hold it; `rows`: only of these."""
        if rows is None:
            every: Floats = np.diff(self.arrays["heads"]).astype(np.float64)
            return every
        terms = self.arrays["terms"][np.repeat(rows, np.diff(self.arrays["starts"]))]
        return np.bincount(terms, minlength=len(self.term_ids)).astype(np.float64)

    def context(self, row: int) -> ContextVector:
        """The context of a row."""
        low, high = (int(self.arrays["starts"][at]) for at in (row, row + 1))
        terms = self.term_ids[self.arrays["terms"][low:high]]
        order = np.argsort(terms)
        return ContextVector(
            terms[order], self.arrays["counts"][low:high].astype(np.float64)[order]
        )

    def sparse_rows(self, first: int, last: int) -> SparseRows:
        """Rows as any measure takes them."""
        low, high = (int(self.arrays["starts"][at]) for at in (first, last))
        starts = (self.arrays["starts"][first : last + 1] - low).astype(np.int32)
        counts = self.arrays["counts"][low:high].astype(np.float64)
        width = int(self.term_ids.max(initial=-1)) + 1
        return SparseRows(
            starts, self.term_ids[self.arrays["terms"][low:high]], counts, counts**2, width
        )

    # Bounds

    def has_stale_bounds(self, log_event_count: float) -> bool:
        """Whether bounds have to be made anew, for a log E of now."""
        return (
            self.log_event_count is None
            or log_event_count > self.log_event_count + _MAX_LEVEL_GROWTH
        )

    def rebuild_bounds(self, log_event_count: float, document_frequencies: Floats) -> None:
        """Make bounds for counts as they are now: log E, C_k by term."""
        logs = np.log10(np.maximum(document_frequencies[self.term_ids], 1))
        self.arrays |= self._allocate_bounds(np.minimum(logs, log_event_count))
        self.log_event_count = log_event_count
        kernel.build_bounds(
            log_event_count, *(self.arrays[name] for name in ("starts", "terms", "counts", *BOUNDS))
        )

    def update_bounds(self, terms: Ids, new_logs: Floats) -> None:
        """Lower bounds to counts as they are now, log C_k of the terms that have changed since the last time."""
        kernel.update_bounds(
            terms,
            new_logs,
            self.log_event_count,
            self._ids,
            self._order,
            *_update_arguments(self.arrays),
        )

    def _arrays_for(
        self, query: SearchQuery
    ) -> tuple[float | None, Mapping[str, npt.NDArray[Any]]]:
        """What a query is held against: log E of the bounds, and all arrays."""
        return (1.0, self._set_arrays) if query.is_set else (self.log_event_count, self.arrays)

    @cached_property
    def _set_arrays(self) -> Mapping[str, npt.NDArray[Any]]:
        """The arrays where contexts are sets: each term once, with log C_k = 0, so that nothing moves the bounds."""
        counts = _read_only(np.ones(len(self.arrays["terms"]), dtype=np.uint8))
        found = {
            **self.arrays,
            "counts": counts,
            "times": counts,
            **self._allocate_bounds(np.zeros(len(self.term_ids))),
        }
        kernel.build_bounds(1.0, *(found[name] for name in ("starts", "terms", "counts", *BOUNDS)))
        return found

    def _allocate_bounds(self, logs: Floats) -> dict[str, npt.NDArray[Any]]:
        """Room for bounds of all rows, by log C_k."""
        return {
            "logs": logs,
            **{name: np.empty(len(self)) for name in ("squares", "once", "twice")},
            "inverses": np.empty(len(self), dtype=np.float32),
            "impacts": np.empty(len(self.term_ids), dtype=np.float32),
        }

    def score_bound(self, query: SearchQuery, known_norms: bool) -> float:
        """No row scores more. `known_norms`: bounds are up to date with the question's counts."""
        if not len(query.terms):
            return 0.0
        _, arrays = self._arrays_for(query)
        if known_norms and not query.is_set:
            self.update_bounds(query.terms, query.log_frequencies)
        impacts = arrays["impacts"] if known_norms else np.empty(0, dtype=np.float32)
        local, left = np.empty(len(query.terms), dtype=np.int64), np.empty(len(query.terms) + 1)
        asked = (query.terms, query.gains, query.weights, query.norm)
        kernel.remaining_bounds(*asked, self._ids, self._order, impacts, local, left)
        return float(left[0])

    def expected_score(self, query: SearchQuery) -> float:
        """What to expect of the best row: rare terms of the query that weigh much in some row here, more so where
        many rows hold them, which may be the same rows."""
        places = np.minimum(np.searchsorted(self._ids, query.terms), max(len(self._ids) - 1, 0))
        if not len(self._ids):
            return 0.0
        there = self._ids[places] == query.terms
        terms = self._order[places[there]]
        impacts, heads = self.arrays["impacts"][terms], self.arrays["heads"]
        parts = np.minimum(query.weights[there], query.gains[there] * np.minimum(impacts, 1e30)) / (
            query.norm or 1.0
        )
        return float(np.sum(parts**2 * np.sqrt(heads[terms + 1] - heads[terms])))

    def search(
        self,
        query: SearchQuery,
        pinned: PinnedCounts,
        max_sequence: int,
        rows: tuple[int, int],
        k: int,
        min_score: float,
        buffers: SearchBuffers,
    ) -> tuple[npt.NDArray[np.int64], Floats]:
        """The rows that are among the k best and score `least` or more, best first, with their scores."""
        best, scores = np.empty(k, dtype=np.int64), np.empty(k)
        level, arrays = self._arrays_for(query)
        pinned = _UNIFORM_COUNTS if query.is_set else pinned
        found = kernel.search(
            *(query.terms, query.log_frequencies, level, query.gains, query.weights, query.norm),
            *(
                float(max(pinned.event_count, 1)),
                pinned.base_frequencies,
                pinned.changed_terms,
                pinned.frequency_changes,
            ),
            *(self._ids, self._order, self.term_ids),
            *_search_arguments(arrays),
            *(
                *rows,
                max_sequence,
                k,
                min_score,
                buffers.sums,
                buffers.reserve_terms(len(self.term_ids)),
                best,
                scores,
            ),
        )
        return best[:found], scores[:found]


def _read_only(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same, not to be written to."""
    found = array.view()
    found.flags.writeable = False
    return found
