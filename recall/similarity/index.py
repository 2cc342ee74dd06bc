"""The corpus of one rule's version, chunk by chunk: contexts of past events, ready to be compared.

Each chunk is some segments; events that come in make a new one, and small ones are merged as in a log-structured tree
(O'Neil et al. 1996), so that an event costs a logarithmic number of copies. E and C_k are kept for all of the corpus.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from recall.similarity import kernel
from recall.similarity.corpus import ContextVector, CorpusCounts, Floats, SparseRows, Vocabulary
from recall.similarity.journal import Journal
from recall.similarity.measure import BinaryMeasure, Measure, TfIdfMeasure, score_with_numbers
from recall.similarity.numeric import (
    NO_VALUES,
    NumericValues,
    Scales,
    build_scales,
    flatten_values,
    numeric_products,
    numeric_squares,
)
from recall.similarity.ranking import RankedHit, TopK, top_rows
from recall.similarity.segment import (
    MAX_SEGMENT_ROWS,
    CorpusEvent,
    EventKey,
    PinnedCounts,
    SearchBuffers,
    SearchQuery,
    Segment,
)

__all__ = [
    "Comparison",
    "Index",
    "EventKey",
    "CorpusEvent",
    "PinnedCounts",
    "TimeSpan",
    "count_terms",
    "make_corpus_event",
    "restore_top",
]

_NO_TERMS = np.empty(0, dtype=np.int32)

# Rows of an event's contexts, by name: columns and their values as texts.
ContextTables = Mapping[str, Sequence[Mapping[str, str | None]]]
# From a time (None: the first) to before another, microseconds.
TimeSpan = tuple[int | None, int]
RowPositions = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass
class Comparison:
    """One event that is compared, with the counts of its question; the best so far go into `top`."""

    event: CorpusEvent
    pinned_counts: PinnedCounts
    measure: Measure
    top: TopK[EventKey]
    before_ts: int
    """Past events are older than this, microseconds."""
    max_sequence: int
    """Past events are those that came in up to this number."""
    counts: CorpusCounts | None = None
    """What is pinned for every term, once it was needed."""
    scales: Scales | None = None
    """What is pinned for numeric attributes, once it was needed."""


class Index:
    """The corpus of one version of a rule, by some of its contexts. `numeric`: attributes compared as numbers, with
    their bandwidths, None for that of Silverman's rule."""

    def __init__(self, numeric: Mapping[str, float | None] | None = None) -> None:
        self.numeric = dict(sorted((numeric or {}).items()))
        self.vocabulary = Vocabulary()
        self.last_sequence = 0
        """The last event that came in."""
        self.segments: list[Segment] = []
        self._event_count = 0
        self._newest_ts: int | None = None
        self._document_frequencies = np.zeros(0)
        self._counts_shared = False
        self._journal = Journal()
        self._search_buffers = SearchBuffers()

    def __len__(self) -> int:
        return self._event_count

    # What comes in

    def add(self, chunk: int, events: Iterable[CorpusEvent]) -> None:
        """Events that came into the corpus, of one chunk, in any order."""
        new = sorted(events, key=lambda past: past.key)
        for first in range(0, len(new), MAX_SEGMENT_ROWS):
            self.add_segment(
                Segment.from_events(chunk, new[first : first + MAX_SEGMENT_ROWS], self.vocabulary)
            )

    def add_segment(self, segment: Segment) -> None:
        """A segment of new events, whose terms are numbered by this index's vocabulary."""
        self._make_counts_writable()
        self._document_frequencies[segment.term_ids] += segment.document_frequencies()
        if self._journal.is_full:
            for known in self.segments:
                self._refresh_segment_bounds(known, self._log_event_count)
                known.journal_position = 0
            self._journal.clear()
        self._journal.record(segment.term_ids)
        self._event_count += len(segment)
        newest = int(segment.arrays["ts"][-1])
        self._newest_ts = newest if self._newest_ts is None else max(newest, self._newest_ts)
        self.last_sequence = max(self.last_sequence, segment.newest_sequence)
        self.segments.append(segment)
        self._merge_segments(segment.chunk)
        self.segments.sort(key=lambda one: (one.chunk, one.key_range[0]))

    def _make_counts_writable(self) -> None:
        """C_k may be written to, and has room for all terms: what was given out stays as it is."""
        width = len(self.vocabulary)
        if self._counts_shared or len(self._document_frequencies) < width:
            room = (
                len(self._document_frequencies)
                if width <= len(self._document_frequencies)
                else max(width, 2 * len(self._document_frequencies), 1024)
            )
            self._document_frequencies = np.concatenate(
                [self._document_frequencies, np.zeros(room - len(self._document_frequencies))]
            )
            self._counts_shared = False

    def _merge_segments(self, chunk: int) -> None:
        """The smallest segments of a chunk become one while it is less than twice their size together."""
        while True:
            mine = sorted((s for s in self.segments if s.chunk == chunk), key=len)
            if (
                len(mine) < 2
                or len(mine[1]) >= 2 * len(mine[0])
                or len(mine[0]) + len(mine[1]) > MAX_SEGMENT_ROWS
            ):
                return
            merged = Segment.merge(mine[:2])
            self.segments = [s for s in self.segments if s not in mine[:2]] + [merged]

    # E and C_k

    def pin_counts(self, event: CorpusEvent) -> PinnedCounts:
        """E and C_k up to and including an event, of what came in up to `event.number`.

        The event itself counts once, whether or not it is in the corpus yet.
        """
        width = len(self.vocabulary)
        events, newest = self._event_count, self._newest_ts
        less = None
        for segment in self.segments:
            counted = segment.counted_rows(event.key, event.sequence)
            if counted is not None:
                less = np.zeros(width) if less is None else less
                less[segment.term_ids] -= segment.document_frequencies(~counted)
                events -= int(np.count_nonzero(~counted))
        changed, changes = _NO_TERMS, np.zeros(0)
        if less is not None:
            changed = np.flatnonzero(less).astype(np.int32)
            changes = less[changed]
            newest = max(
                (t for s in self.segments if (t := _newest_counted_ts(s, event)) is not None),
                default=None,
            )
        if not self._contains(event):
            events += 1
            newest = event.ts
            mine = self.vocabulary.encode(event.term_counts).terms
            if len(changed):
                both = np.union1d(changed, mine).astype(np.int32)
                more = np.isin(both, mine).astype(np.float64)
                more[np.searchsorted(both, changed)] += changes
                changed, changes = both, more
            else:
                changed, changes = mine, np.ones(len(mine))
        self._counts_shared = True
        return PinnedCounts(events, self._document_frequencies, changed, changes, newest)

    def full_counts(self, comparison: Comparison) -> CorpusCounts:
        """What is pinned, for every term."""
        if comparison.counts is None:
            pinned = comparison.pinned_counts
            holding = np.zeros(len(self.vocabulary))
            size = min(len(holding), len(pinned.base_frequencies))
            holding[:size] = pinned.base_frequencies[:size]
            holding[pinned.changed_terms] += pinned.frequency_changes
            comparison.counts = CorpusCounts(
                pinned.event_count, holding, pinned.newest_ts, self.vocabulary.attributes
            )
        return comparison.counts

    def pinned_scales(self, comparison: Comparison) -> Scales:
        """What is pinned for numeric attributes: the values up to and including the event's."""
        if comparison.scales is None:
            parts = []
            for segment in self.segments:
                counted = segment.counted_rows(comparison.event.key, comparison.event.sequence)
                held = segment.values
                mine = slice(None) if counted is None else counted[held.rows]
                parts.append(
                    NumericValues(held.rows[mine], held.attributes[mine], held.values[mine])
                )
            own = (
                NO_VALUES
                if self._contains(comparison.event)
                else flatten_values([comparison.event.numeric_values])
            )
            comparison.scales = build_scales(parts, own, list(self.numeric.values()))
        return comparison.scales

    def _contains(self, event: CorpusEvent) -> bool:
        return any(
            int(s.arrays["numbers"][row]) <= event.sequence for s, row in self._find_rows(event.key)
        )

    def _find_rows(self, key: EventKey) -> Iterable[tuple[Segment, int]]:
        for segment in self.segments:
            if segment.key_range[0] <= key <= segment.key_range[1]:
                row = segment.find_row(key)
                if segment.key(row) == key:
                    yield segment, row

    def context(self, key: EventKey) -> ContextVector:
        """The context of an event of the corpus."""
        for segment, row in self._find_rows(key):
            return segment.context(row)
        raise KeyError(key)

    # Comparing

    def score(
        self, comparisons: Sequence[Comparison], spans: Sequence[TimeSpan]
    ) -> list[tuple[int, bool]]:
        """Compare each event with past ones of a span of time, all in one pass.

        Returns for each how many it was compared with, and whether its best have changed.
        """
        compared, changed = [0] * len(comparisons), [False] * len(comparisons)
        queries = [self._search_query(one) for one in comparisons]
        level = self._log_event_count
        for segment in self.segments:
            for at, (one, query, (low, high)) in enumerate(
                zip(comparisons, queries, spans, strict=True)
            ):
                first, last = segment.rows_between(low, min(high, one.before_ts))
                if first >= last:
                    continue
                compared[at] += last - first
                if query is None:
                    rows, scores = self._score_exhaustively(segment, one, first, last)
                else:
                    if not query.is_set:
                        self._refresh_segment_bounds(segment, level)
                    limits = (first, last), one.top.k, one.top.min_score
                    rows, scores = segment.search(
                        query, one.pinned_counts, one.max_sequence, *limits, self._search_buffers
                    )
                if len(rows):
                    changed[at] = (
                        one.top.add_hits([segment.key(int(row)) for row in rows], scores)
                        or changed[at]
                    )
        return list(zip(compared, changed, strict=True))

    def _search_query(self, one: Comparison) -> SearchQuery | None:
        """The event as the fast search takes it; None: its measure is another, or that is TF-IDF and there are numbers
        or its counts lie too far back."""
        context = self.vocabulary.encode(one.event.term_counts)
        if isinstance(one.measure, BinaryMeasure):
            return one.pinned_counts.set_query(context)
        if (
            not isinstance(one.measure, TfIdfMeasure)
            or self.numeric
            or one.pinned_counts.log_event_count < self._log_event_count - kernel.MAX_LOG_LAG
        ):
            return None
        return one.pinned_counts.weighted_query(context)

    @property
    def _log_event_count(self) -> float:
        return math.log10(max(self._event_count, 1))

    def _score_exhaustively(
        self, segment: Segment, one: Comparison, first: int, last: int
    ) -> tuple[RowPositions, Floats]:
        """The best of some rows by any measure, from the scores of all."""
        context = self.vocabulary.encode(one.event.term_counts)
        if self.numeric and isinstance(one.measure, TfIdfMeasure):
            scores = self._score_with_numbers(
                context,
                segment.sparse_rows(first, last),
                segment.values.slice_rows(first, last),
                one,
            )
        else:
            scores = one.measure.score_rows(
                context, segment.sparse_rows(first, last), self.full_counts(one)
            )
        scores[segment.arrays["numbers"][first:last] > one.max_sequence] = 0
        rows = top_rows(scores, one.top.k)
        return rows + first, scores[rows]

    def _score_with_numbers(
        self, context: ContextVector, rows: SparseRows, values: NumericValues, one: Comparison
    ) -> Floats:
        """TF-IDF of terms and numbers together."""
        own, known = flatten_values([one.event.numeric_values]), self.pinned_scales(one)
        near = (
            numeric_products(own, values, known, len(rows)),
            numeric_squares(own, known, 1),
            numeric_squares(values, known, len(rows)),
        )
        return score_with_numbers(context, rows, self.full_counts(one), *near)

    def numeric_contributions(
        self, comparison: Comparison, key: EventKey
    ) -> list[tuple[str, float]]:
        """By numeric attribute, as `cpu=93.5~91.2`, what its values add to the product of the weights of an event and
        a past one; empty where numbers are not compared."""
        if not self.numeric or not isinstance(comparison.measure, TfIdfMeasure):
            return []
        own, known = (
            flatten_values([comparison.event.numeric_values]),
            self.pinned_scales(comparison),
        )
        found = []
        for segment, row in self._find_rows(key):
            there = segment.values.slice_rows(row, row + 1)
            for place, name in enumerate(self.numeric):
                mine, theirs = own.for_attribute(place), there.for_attribute(place)
                if place in known and len(mine.values) and len(theirs.values):
                    part = float(numeric_products(mine, theirs, {place: known[place]}, 1)[0])
                    values = (
                        " ".join(f"{value:.6g}" for value in side.values) for side in (mine, theirs)
                    )
                    found.append((f"{name}={'~'.join(values)}", part))
            break
        return found

    def refresh_bounds(self) -> None:
        """Bring the bounds of all segments up to E and C_k of now."""
        level = self._log_event_count
        for segment in self.segments:
            self._refresh_segment_bounds(segment, level)

    def _refresh_segment_bounds(self, segment: Segment, level: float) -> None:
        """Bring a segment's bounds up to E and C_k of now; `level`: log E."""
        if segment.has_stale_bounds(level):
            segment.rebuild_bounds(level, self._document_frequencies)
        elif segment.journal_position < len(self._journal):
            segment.update_bounds(
                *self._journal.since(segment.journal_position, self._document_frequencies)
            )
        segment.journal_position = len(self._journal)

    # What unread history can bring

    def score_bounds(self, comparison: Comparison, spans: Sequence[TimeSpan]) -> list[float]:
        """For each span [low, high) of time, microseconds, the most that an event of it can score; 0: none can.

        Computed from the segments' terms and bounds alone; it holds for what is in the index now.
        """
        query = self._search_query(comparison)
        known = [
            (segment, self._score_bound(segment, comparison, query)) for segment in self.segments
        ]
        return _max_by_span(known, spans, comparison.before_ts)

    def expected_scores(self, comparison: Comparison, spans: Sequence[TimeSpan]) -> list[float]:
        """By which to rank spans of time: for each, what its terms' summaries let expect of its best. No bound."""
        context = self.vocabulary.encode(comparison.event.term_counts)
        query = comparison.pinned_counts.weighted_query(context)
        self.refresh_bounds()
        known = [(segment, segment.expected_score(query)) for segment in self.segments]
        return _max_by_span(known, spans, comparison.before_ts)

    def _score_bound(self, segment: Segment, one: Comparison, query: SearchQuery | None) -> float:
        context = self.vocabulary.encode(one.event.term_counts)
        if query is not None:
            if not query.is_set:
                self._refresh_segment_bounds(segment, self._log_event_count)
            return segment.score_bound(query, known_norms=True)
        if not isinstance(one.measure, TfIdfMeasure):
            # Nothing in common is no hit, whatever the measure.
            return math.inf if np.isin(context.terms, segment.term_ids).any() else 0.0
        query = one.pinned_counts.weighted_query(context)
        own, known = (
            flatten_values([one.event.numeric_values]),
            self.pinned_scales(one) if self.numeric else {},
        )
        both = {
            at: scale for at, scale in known.items() if (segment.arrays["attributes"] == at).any()
        }
        most, norm = (float(numeric_squares(own, some, 1)[0]) for some in (both, known))
        # By Cauchy–Schwarz: the part of the query that can have a counterpart there.
        most += (segment.score_bound(query, known_norms=False) * query.norm) ** 2
        norm += query.norm**2
        return math.sqrt(most / norm) if norm > 0 else 0.0


def _max_by_span(
    known: Sequence[tuple[Segment, float]], spans: Sequence[TimeSpan], newest: int
) -> list[float]:
    """For each span of time the most of those segments that have events in it before a time; 0: none has."""
    some = [(segment, most) for segment, most in known if most > 0]
    oldest, latest = (
        np.array([segment.key_range[end][0] for segment, _ in some], dtype=np.int64)
        for end in (0, 1)
    )
    found = []
    for low, high in spans:
        until = min(high, newest)
        near = (oldest < until) if low is None else (oldest < until) & (latest >= low)
        there = (some[at] for at in np.flatnonzero(near))
        found.append(
            max((most for segment, most in there if _has_rows(segment, low, until)), default=0.0)
        )
    return found


def _has_rows(segment: Segment, low: int | None, high: int) -> bool:
    first, last = segment.rows_between(low, high)
    return first < last


def _newest_counted_ts(segment: Segment, event: CorpusEvent) -> int | None:
    counted = segment.counted_rows(event.key, event.sequence)
    ts = segment.arrays["ts"] if counted is None else segment.arrays["ts"][counted]
    return int(ts[-1]) if len(ts) else None


def restore_top(k: int, hits: Sequence[tuple[int, str, float]]) -> TopK[EventKey]:
    """The best so far, as they were kept."""
    top: TopK[EventKey] = TopK(k)
    top.hits = [RankedHit((ts, eid), score) for ts, eid, score in hits]
    return top


def make_corpus_event(
    ts: int,
    eid: str,
    sequence: int,
    contexts: ContextTables,
    names: Iterable[str],
    numeric: Mapping[str, Any],
) -> CorpusEvent:
    """An event by some of its contexts: the terms `attribute=value`, with how often each occurs; of `numeric`
    attributes the values that are numbers. NULL gives nothing."""
    facts: dict[str, int] = {}
    numbers: dict[int, list[float]] = {}
    places = {attribute: place for place, attribute in enumerate(sorted(numeric))}
    for name in names:
        for row in contexts.get(name, ()):
            for attribute, value in row.items():
                number_of = _parse_number(value) if attribute in places else None
                if number_of is not None:
                    numbers.setdefault(places[attribute], []).append(number_of)
                elif value is not None:
                    term = f"{attribute}={value}"
                    facts[term] = facts.get(term, 0) + 1
    return CorpusEvent(ts, eid, sequence, facts, numbers)


def count_terms(contexts: ContextTables, names: Iterable[str]) -> Mapping[str, int]:
    """The terms of some of an event's contexts, numbers as their text."""
    return make_corpus_event(0, "", 0, contexts, names, {}).term_counts


def _parse_number(value: str | None) -> float | None:
    try:
        found = math.nan if value is None else float(value)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
