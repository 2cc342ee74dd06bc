"""The corpus of one rule version, chunk by chunk: contexts of past events, ready to be compared.

Each chunk has several segments. New events make a new segment, and small ones are merged as in a
log-structured merge tree (O'Neil et al. 1996), so that an event is copied a logarithmic number of
times. E and C_k are counted over the whole corpus. No I/O.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from archiver.time_range import TimeRange
from archiver.times import Micros
from recall.similarity.candidates import BEST_COUNT, CandidateRows, Mask
from recall.similarity.comparison import Comparison, ScoredRows
from recall.similarity.events import CorpusEvent, EventKey
from recall.similarity.journal import Journal
from recall.similarity.measures import (
    MEASURES,
    BinaryMeasure,
    ContextVector,
    CorpusCounts,
    Floats,
    Ids,
    TfIdfMeasure,
    Vocabulary,
    round_scores,
    score_with_numbers,
)
from recall.similarity.numeric import (
    NO_VALUES,
    Scales,
    build_scales,
    flatten_values,
    numeric_products,
    numeric_squares,
)
from recall.similarity.ranking import top_rows
from recall.similarity.segment_rows import (
    RowsBySegment,
    is_among,
    key_of,
    select_rows,
    unite_rows,
)
from recall.similarity.segments import (
    MAX_LOG_LAG,
    MAX_SEGMENT_ROWS,
    BoundedRows,
    PinnedCounts,
    RowsOfSegment,
    SearchBuffers,
    SearchQuery,
    Segment,
    merge_segments,
)
from recall.similarity.spans import max_by_span

_MIN_CAPACITY = 1024  # terms
# Scores whose ratio is above this may be equal after rounding.
_TIE_FACTOR = 1 - 1e-9

# Of each segment, the rows with the highest bounds that may be scored. The limit of bounds is this
# share of the k-th highest: they are a few percent above the scores.
_MAX_BOUNDED_ROWS = 2 * BEST_COUNT
_BOUND_SHARE = 0.98

# A segment with some of its rows: the first one, and the row after the last.
SegmentRange = tuple[Segment, int, int]


class Index:
    """The corpus of one rule version, by some of its contexts.

    `numeric`: attributes compared as numbers, with their bandwidths (None: Silverman's rule).
    """

    def __init__(self, numeric: Mapping[str, float | None] | None = None) -> None:
        self.numeric = dict(sorted((numeric or {}).items()))
        self.vocabulary = Vocabulary()
        self.last_sequence = 0
        """The sequence number of the newest event."""
        self.segments: list[Segment] = []
        self._event_count = 0
        self._newest_ts: Micros | None = None
        # C_k by term, with spare capacity. Copied before a change once it was shared.
        self._document_frequencies = np.zeros(0)
        self._counts_shared = False
        self._journal = Journal()
        self._search_buffers = SearchBuffers()

    def __len__(self) -> int:
        return self._event_count

    # Adding events

    def add(self, chunk: int, events: Iterable[CorpusEvent]) -> None:
        """Add events of one chunk, in any order."""
        ordered = sorted(events, key=lambda event: event.key)
        for first in range(0, len(ordered), MAX_SEGMENT_ROWS):
            part = ordered[first : first + MAX_SEGMENT_ROWS]
            self.add_segment(Segment.from_events(chunk, part, self.vocabulary))

    def add_segment(self, segment: Segment) -> None:
        """Add a segment of new events, whose terms are numbered by this index's vocabulary."""
        self._make_counts_writable()
        self._document_frequencies[segment.term_ids] += segment.document_frequencies()
        if self._journal.is_full:
            for existing in self.segments:
                self._refresh_segment_bounds(existing, self._log_event_count)
                existing.journal_position = 0
            self._journal.clear()
        self._journal.record(segment.term_ids)
        self._event_count += len(segment)
        newest_ts = int(segment.arrays["ts"][-1])
        if self._newest_ts is None or newest_ts > self._newest_ts:
            self._newest_ts = newest_ts
        self.last_sequence = max(self.last_sequence, segment.newest_sequence)
        self.segments.append(segment)
        self._merge_small_segments(segment.chunk)
        self.segments.sort(key=lambda segment: (segment.chunk, segment.key_range[0]))

    def _make_counts_writable(self) -> None:
        """Have an unshared array of C_k with an element for every term."""
        width, capacity = len(self.vocabulary), len(self._document_frequencies)
        if capacity >= width and not self._counts_shared:
            return
        if capacity < width:
            capacity = max(width, 2 * capacity, _MIN_CAPACITY)
        writable = np.zeros(capacity)
        writable[: len(self._document_frequencies)] = self._document_frequencies
        self._document_frequencies = writable
        self._counts_shared = False

    def _merge_small_segments(self, chunk: int) -> None:
        """Merge the two smallest segments of a chunk, until one is twice as large as the other."""
        while True:
            segments = [segment for segment in self.segments if segment.chunk == chunk]
            if len(segments) < 2:
                return
            smallest, second = sorted(segments, key=len)[:2]
            if len(second) >= 2 * len(smallest):
                return
            if len(smallest) + len(second) > MAX_SEGMENT_ROWS:
                return
            merged = merge_segments([smallest, second])
            self.segments.remove(smallest)
            self.segments.remove(second)
            self.segments.append(merged)

    # E and C_k

    def pin_counts(self, event: CorpusEvent) -> PinnedCounts:
        """E and C_k of the events up to and including `event`, by (ts, event ID).

        Of these, the events that entered the corpus up to `event.sequence` are counted. The event
        itself counts once, whether or not it is in the corpus yet.
        """
        width = len(self.vocabulary)
        event_count, newest_ts = self._event_count, self._newest_ts
        excluded: Floats | None = None
        for segment in self.segments:
            counted = segment.counted_rows(event.key, event.sequence)
            if counted is None:
                continue
            if excluded is None:
                excluded = np.zeros(width)
            excluded[segment.term_ids] += segment.document_frequencies(~counted)
            event_count -= int(np.count_nonzero(~counted))
        changed_terms, changes = np.empty(0, dtype=np.int32), np.zeros(0)
        if excluded is not None:
            changed_terms = np.flatnonzero(excluded).astype(np.int32)
            changes = -excluded[changed_terms]
            newest_ts = self._newest_counted_ts(event)
        if not self._contains(event):
            event_count += 1
            newest_ts = event.ts
            event_terms = self.vocabulary.encode(event.term_counts).terms
            changed_terms, changes = _count_terms_once(changed_terms, changes, event_terms)
        self._counts_shared = True
        return PinnedCounts(
            event_count, self._document_frequencies, changed_terms, changes, newest_ts
        )

    def _newest_counted_ts(self, event: CorpusEvent) -> Micros | None:
        """The newest time of the events that are counted for `event`; None: there are none."""
        newest_ts: Micros | None = None
        for segment in self.segments:
            ts = segment.arrays["ts"]
            counted = segment.counted_rows(event.key, event.sequence)
            if counted is not None:
                ts = ts[counted]
            if len(ts) and (newest_ts is None or ts[-1] > newest_ts):
                newest_ts = int(ts[-1])
        return newest_ts

    def full_counts(self, comparison: Comparison) -> CorpusCounts:
        """The pinned counts of a comparison, for every term."""
        if comparison.counts is None:
            pinned = comparison.pinned_counts
            frequencies = np.zeros(len(self.vocabulary))
            size = min(len(frequencies), len(pinned.base_frequencies))
            frequencies[:size] = pinned.base_frequencies[:size]
            frequencies[pinned.changed_terms] += pinned.frequency_changes
            comparison.counts = CorpusCounts(
                pinned.event_count, frequencies, pinned.newest_ts, self.vocabulary.attributes
            )
        return comparison.counts

    def _encode(self, comparison: Comparison) -> ContextVector:
        if comparison.context is None:
            comparison.context = self.vocabulary.encode(comparison.event.term_counts)
        return comparison.context

    def pinned_scales(self, comparison: Comparison) -> Scales:
        """The scales of numeric attributes, from the values that are counted for a comparison."""
        if comparison.scales is None:
            event = comparison.event
            parts = []
            for segment in self.segments:
                values = segment.values
                counted = segment.counted_rows(event.key, event.sequence)
                if counted is not None:
                    values = values.select(counted[values.rows])
                parts.append(values)
            event_values = NO_VALUES
            if not self._contains(event):
                event_values = flatten_values([event.numeric_values])
            comparison.scales = build_scales(parts, event_values, list(self.numeric.values()))
        return comparison.scales

    def _contains(self, event: CorpusEvent) -> bool:
        """Whether the event is in the corpus and entered it up to `event.sequence`."""
        for segment, row in self._find_rows(event.key):
            if segment.arrays["numbers"][row] <= event.sequence:
                return True
        return False

    def _find_rows(self, key: EventKey) -> Iterator[tuple[Segment, int]]:
        for segment in self.segments:
            if segment.key_range[0] <= key <= segment.key_range[1]:
                row = segment.find_row(key)
                if segment.key(row) == key:
                    yield segment, row

    def context(self, key: EventKey) -> ContextVector:
        """The context of an event. Raises `KeyError` if it is not in the corpus."""
        for segment, row in self._find_rows(key):
            return segment.context(row)
        raise KeyError(key)

    # Comparing

    def score(
        self, comparisons: Sequence[Comparison], spans: Sequence[TimeRange]
    ) -> list[tuple[int, bool]]:
        """Compare each event with the past events of its span of time, in one pass.

        Returns for each comparison how many events it was compared with, and whether its best
        hits have changed.
        """
        compared, changed = [0] * len(comparisons), [False] * len(comparisons)
        queries = map(self._search_query, comparisons)
        past_spans = []
        for comparison, span in zip(comparisons, spans, strict=True):
            past_spans.append(span.intersect(TimeRange(None, comparison.before_ts)))
        jobs = list(zip(comparisons, queries, past_spans, strict=True))
        for number, (comparison, _, span) in enumerate(jobs):
            if comparison.candidates is not None:
                compared[number], changed[number] = self._score_candidates(comparison, span)
        log_event_count = self._log_event_count
        for segment in self.segments:
            for number, (comparison, query, span) in enumerate(jobs):
                first, last = segment.rows_between(span)
                if first >= last or comparison.candidates is not None:
                    continue
                compared[number] += last - first
                if query is None:
                    rows, scores = self._score_exhaustively(segment, comparison, first, last)
                else:
                    if not query.is_set:
                        self._refresh_segment_bounds(segment, log_event_count)
                    rows, scores = segment.search(
                        query,
                        comparison.pinned_counts,
                        max_sequence=comparison.max_sequence,
                        rows=(first, last),
                        k=comparison.top.k,
                        min_score=comparison.top.min_score,
                        buffers=self._search_buffers,
                    )
                if len(rows):
                    keys = list(map(segment.key, rows.tolist()))
                    if comparison.top.add_hits(keys, scores):
                        changed[number] = True
        return list(zip(compared, changed, strict=True))

    def _score_candidates(self, comparison: Comparison, span: TimeRange) -> tuple[int, bool]:
        """Find the candidates of a span of time, and rank all candidates.

        Returns how many events were compared, and whether the best hits have changed.
        """
        candidates, scorer = comparison.candidates, comparison.scorer
        assert candidates is not None and scorer is not None
        ranges = []
        for segment in self.segments:
            first, last = segment.rows_between(span)
            if first < last:
                ranges.append((segment, first, last))
        named = self._name_rows(comparison, ranges)
        query = self._candidate_query(comparison)
        others_bound = math.inf
        best: RowsBySegment = {}
        if query is not None:
            others_bound, best = self._search_bounds(comparison, query, ranges)
        parts, is_named = unite_rows([segment for segment, *_ in ranges], named, best)
        best_score = 0.0
        if parts:
            scored = self._score_by_scorer(comparison, parts)
            tfidf_scores = round_scores(scored.tfidf_scores)
            named_numbers = np.flatnonzero(is_named)
            candidates.add_named(
                scored.scores[is_named], lambda number: key_of(parts, named_numbers[number])
            )
            if len(tfidf_scores) >= BEST_COUNT:
                best_score = float(np.partition(tfidf_scores, -BEST_COUNT)[-BEST_COUNT])
        min_score = max(candidates.min_score, best_score)
        if others_bound > min_score:
            # The bounds leave open which rows are the best.
            self._add_best_by_scores(comparison, query, ranges, named, min_score * _TIE_FACTOR)
        elif parts:
            high = np.flatnonzero((tfidf_scores >= min_score) & (tfidf_scores > 0))
            candidates.add_best(
                _candidate_rows(
                    select_rows(parts, high),
                    tfidf_scores[high],
                    scored.scores[high],
                    is_named[high],
                )
            )
        compared = sum(last - first for _, first, last in ranges)
        return compared, candidates.update_top(comparison.top)

    def _name_rows(self, comparison: Comparison, ranges: Sequence[SegmentRange]) -> RowsBySegment:
        """The rows that the scorer names, ascending; no segments without such rows."""
        assert comparison.scorer is not None
        named = {}
        for segment, first, last in ranges:
            rows = comparison.scorer.name_rows(segment)
            if not len(rows):
                continue
            if first > 0 or last < len(segment):
                rows = rows[slice(*np.searchsorted(rows, (first, last)))]
            if segment.newest_sequence > comparison.max_sequence:
                rows = rows[segment.arrays["numbers"][rows] <= comparison.max_sequence]
            if len(rows):
                named[segment] = rows
        return named

    def _search_bounds(
        self, comparison: Comparison, query: SearchQuery, ranges: Sequence[SegmentRange]
    ) -> tuple[float, RowsBySegment]:
        """The rows with the highest bounds of their scores by TF-IDF, and a bound for all others.

        These are a few more than are kept, so that the best are among them as a rule.
        """
        assert comparison.candidates is not None
        limit, others_bound = comparison.candidates.min_score, 0.0
        bounded_by_segment: dict[Segment, BoundedRows] = {}
        best_bounds = np.zeros(0)
        for segment, first, last in ranges:
            self._refresh_segment_bounds(segment, self._log_event_count)
            bounded = segment.search_bounds(
                query,
                max_sequence=comparison.max_sequence,
                rows=(first, last),
                max_count=_MAX_BOUNDED_ROWS,
                min_score=limit,
                buffers=self._search_buffers,
            )
            others_bound = max(others_bound, bounded.others_bound)
            if len(bounded.rows):
                bounded_by_segment[segment] = bounded
                best_bounds = np.sort(np.concatenate([best_bounds, bounded.bounds]))[-BEST_COUNT:]
                if len(best_bounds) == BEST_COUNT:
                    limit = max(limit, float(best_bounds[0]) * _BOUND_SHARE)
        best = {}
        for segment, bounded in bounded_by_segment.items():
            high = bounded.bounds + bounded.skipped_bound >= limit * _TIE_FACTOR
            if high.any():
                best[segment] = bounded.rows[high]
        return max(others_bound, limit), best

    def _add_best_by_scores(
        self,
        comparison: Comparison,
        query: SearchQuery | None,
        ranges: Sequence[SegmentRange],
        named: RowsBySegment,
        min_score: float,
    ) -> None:
        """Add the best rows by TF-IDF to the candidates. All that may be among them are scored."""
        candidates = comparison.candidates
        assert candidates is not None
        parts, part_scores, part_named = [], [], []
        best_scores = np.zeros(0)
        for segment, first, last in ranges:
            rows, scores = self._search_segment(
                comparison, query, segment, min_score, (first, last)
            )
            if not len(rows):
                continue
            parts.append(RowsOfSegment(segment, rows))
            part_scores.append(scores)
            part_named.append(is_among(rows, named.get(segment)))
            best_scores = np.sort(np.concatenate([best_scores, scores]))[-BEST_COUNT:]
            if len(best_scores) == BEST_COUNT:
                min_score = max(min_score, float(best_scores[0]))
        if parts:
            scores = np.concatenate(part_scores)
            final_scores = self._score_by_scorer(comparison, parts).scores
            rows_found = _candidate_rows(parts, scores, final_scores, np.concatenate(part_named))
            candidates.add_best(rows_found)

    def _search_segment(
        self,
        comparison: Comparison,
        query: SearchQuery | None,
        segment: Segment,
        min_score: float,
        rows: tuple[int, int],
    ) -> tuple[npt.NDArray[np.int64], Floats]:
        """The best rows of a segment by TF-IDF, and their scores.

        `query`: None if its bounds do not hold any more. Then all rows are scored. `rows`: the
        first row and the row after the last.
        """
        if query is not None:
            self._refresh_segment_bounds(segment, self._log_event_count)
            return segment.search(
                query,
                comparison.pinned_counts,
                max_sequence=comparison.max_sequence,
                rows=rows,
                k=BEST_COUNT,
                min_score=min_score,
                buffers=self._search_buffers,
            )
        first, last = rows
        context = self._encode(comparison)
        scores = MEASURES["tfidf"].score_rows(
            context, segment.sparse_rows(first, last), self.full_counts(comparison)
        )
        scores[segment.arrays["numbers"][first:last] > comparison.max_sequence] = 0
        best = top_rows(scores, BEST_COUNT)
        return best + first, scores[best]

    def _score_by_scorer(
        self, comparison: Comparison, parts: Sequence[RowsOfSegment]
    ) -> ScoredRows:
        assert comparison.scorer is not None
        context = self._encode(comparison)
        return comparison.scorer.score_rows(context, self.full_counts(comparison), parts)

    def may_hold_candidates(self, comparison: Comparison, spans: Sequence[TimeRange]) -> list[bool]:
        """For each span of time, whether one of its events may become a candidate."""
        candidates, scorer = comparison.candidates, comparison.scorer
        assert candidates is not None and scorer is not None
        query = self._candidate_query(comparison)
        bounds = []
        for segment in self.segments:
            bound = math.inf
            if query is not None:
                self._refresh_segment_bounds(segment, self._log_event_count)
                bound = segment.score_bound(query, known_norms=True)
            may_hold = bound > 0 and bound >= candidates.min_score * _TIE_FACTOR
            bounds.append(float(may_hold or len(scorer.name_rows(segment)) > 0))
        return [
            bound > 0 for bound in max_by_span(self.segments, bounds, spans, comparison.before_ts)
        ]

    def _candidate_query(self, comparison: Comparison) -> SearchQuery | None:
        """The event as a query by TF-IDF; None: E was pinned too long ago."""
        pinned = comparison.pinned_counts
        if pinned.log_event_count < self._log_event_count - MAX_LOG_LAG:
            return None
        return pinned.weighted_query(self._encode(comparison))

    def _search_query(self, comparison: Comparison) -> SearchQuery | None:
        """The event as a query of the compiled search; None: its rows must be compared one by one.

        That is so for `attributes`, for TF-IDF with numeric attributes, and if E was pinned too
        long ago for the bounds to hold.
        """
        if comparison.scorer is not None:
            return None
        pinned = comparison.pinned_counts
        context = self._encode(comparison)
        if isinstance(comparison.measure, BinaryMeasure):
            return pinned.set_query(context)
        if not isinstance(comparison.measure, TfIdfMeasure) or self.numeric:
            return None
        if pinned.log_event_count < self._log_event_count - MAX_LOG_LAG:
            return None
        return pinned.weighted_query(context)

    def explain_by_scorer(self, comparison: Comparison, key: EventKey) -> Mapping[str, Any]:
        """What the comparison's scorer says about a past event; empty without a scorer."""
        if comparison.scorer is None:
            return {}
        context = self._encode(comparison)
        for segment, row in self._find_rows(key):
            counts = self.full_counts(comparison)
            return comparison.scorer.explain(context, counts, segment, row)
        raise KeyError(key)

    @property
    def _log_event_count(self) -> float:
        return math.log10(max(self._event_count, 1))

    def _score_exhaustively(
        self, segment: Segment, comparison: Comparison, first: int, last: int
    ) -> tuple[npt.NDArray[np.intp], Floats]:
        """The best of some rows by any measure, and their scores. Scores every row."""
        context = self._encode(comparison)
        counts = self.full_counts(comparison)
        if comparison.scorer is not None:
            part = RowsOfSegment(segment, np.arange(first, last))
            scores = comparison.scorer.score_rows(context, counts, [part]).scores
        elif self.numeric and isinstance(comparison.measure, TfIdfMeasure):
            rows = segment.sparse_rows(first, last)
            query_values = flatten_values([comparison.event.numeric_values])
            values = segment.values.slice_rows(first, last)
            scales = self.pinned_scales(comparison)
            scores = score_with_numbers(
                context,
                rows,
                counts,
                numeric_products=numeric_products(query_values, values, scales, len(rows)),
                query_numeric_squares=numeric_squares(query_values, scales, 1),
                past_numeric_squares=numeric_squares(values, scales, len(rows)),
            )
        else:
            rows = segment.sparse_rows(first, last)
            scores = comparison.measure.score_rows(context, rows, counts)
        scores[segment.arrays["numbers"][first:last] > comparison.max_sequence] = 0
        best_rows = top_rows(scores, comparison.top.k)
        return best_rows + first, scores[best_rows]

    def numeric_contributions(
        self, comparison: Comparison, key: EventKey
    ) -> list[tuple[str, float]]:
        """What numeric attributes add to the product of the event and a past one.

        Each attribute is labelled as `cpu=93.5~91.2`, the event's values first. Empty if numbers
        are not compared.
        """
        if not self.numeric or not isinstance(comparison.measure, TfIdfMeasure):
            return []
        query_values = flatten_values([comparison.event.numeric_values])
        scales = self.pinned_scales(comparison)
        past_values = NO_VALUES
        for segment, row in self._find_rows(key):
            past_values = segment.values.slice_rows(row, row + 1)
            break
        contributions = []
        for attribute, name in enumerate(self.numeric):
            query = query_values.for_attribute(attribute)
            past = past_values.for_attribute(attribute)
            if attribute in scales and len(query.values) and len(past.values):
                scale = {attribute: scales[attribute]}
                product = float(numeric_products(query, past, scale, 1)[0])
                label = f"{name}={_format_values(query.values)}~{_format_values(past.values)}"
                contributions.append((label, product))
        return contributions

    def refresh_bounds(self) -> None:
        """Bring the bounds of all segments up to date with E and C_k."""
        log_event_count = self._log_event_count
        for segment in self.segments:
            self._refresh_segment_bounds(segment, log_event_count)

    def _refresh_segment_bounds(self, segment: Segment, log_event_count: float) -> None:
        if segment.has_stale_bounds(log_event_count):
            segment.rebuild_bounds(log_event_count, self._document_frequencies)
        elif segment.journal_position < len(self._journal):
            terms, logs = self._journal.since(segment.journal_position, self._document_frequencies)
            segment.update_bounds(terms, logs)
        segment.journal_position = len(self._journal)

    # Bounds of unread history

    def score_bounds(self, comparison: Comparison, spans: Sequence[TimeRange]) -> list[float]:
        """For each span of time, an upper bound of the scores of its events; 0: no hits.

        Computed from the terms and bounds of segments alone. Events that are added later are not
        covered.
        """
        query = self._search_query(comparison)
        bounds = [self._score_bound(segment, comparison, query) for segment in self.segments]
        return max_by_span(self.segments, bounds, spans, comparison.before_ts)

    def expected_scores(self, comparison: Comparison, spans: Sequence[TimeRange]) -> list[float]:
        """For each span of time, an estimate of its best score, for ranking; not a bound."""
        context = self._encode(comparison)
        query = comparison.pinned_counts.weighted_query(context)
        self.refresh_bounds()
        estimates = [segment.expected_score(query) for segment in self.segments]
        return max_by_span(self.segments, estimates, spans, comparison.before_ts)

    def _score_bound(
        self, segment: Segment, comparison: Comparison, query: SearchQuery | None
    ) -> float:
        if query is not None:
            if not query.is_set:
                self._refresh_segment_bounds(segment, self._log_event_count)
            return segment.score_bound(query, known_norms=True)
        context = self._encode(comparison)
        if isinstance(comparison.measure, TfIdfMeasure):
            return self._score_bound_without_norms(segment, comparison, context)
        # By any measure, a context that shares no term scores 0.
        if np.isin(context.terms, segment.term_ids).any():
            return math.inf
        return 0.0

    def _score_bound_without_norms(
        self, segment: Segment, comparison: Comparison, context: ContextVector
    ) -> float:
        """By Cauchy–Schwarz: the share of the query's norm that can have a counterpart."""
        query = comparison.pinned_counts.weighted_query(context)
        scales: Scales = {}
        if self.numeric:
            scales = self.pinned_scales(comparison)
        attributes = segment.arrays["attributes"]
        shared_scales = {}
        for attribute, scale in scales.items():
            if (attributes == attribute).any():
                shared_scales[attribute] = scale
        query_values = flatten_values([comparison.event.numeric_values])
        shared_square = float(numeric_squares(query_values, shared_scales, 1)[0])
        shared_square += (segment.score_bound(query, known_norms=False) * query.norm) ** 2
        total_square = float(numeric_squares(query_values, scales, 1)[0])
        total_square += query.norm**2
        if total_square <= 0:
            return 0.0
        return math.sqrt(shared_square / total_square)


def _count_terms_once(changed_terms: Ids, changes: Floats, event_terms: Ids) -> tuple[Ids, Floats]:
    """Changes of C_k by which the terms of one more event are counted."""
    if not len(changed_terms):
        return event_terms, np.ones(len(event_terms))
    terms = np.union1d(changed_terms, event_terms).astype(np.int32)
    sums = np.isin(terms, event_terms).astype(np.float64)
    sums[np.searchsorted(terms, changed_terms)] += changes
    return terms, sums


def _format_values(values: Floats) -> str:
    return " ".join(f"{value:.6g}" for value in values)


def _candidate_rows(
    parts: Sequence[RowsOfSegment], scores: Floats, final_scores: Floats, named: Mask
) -> CandidateRows:
    if not parts:
        return CandidateRows.from_json([])
    return CandidateRows(
        np.concatenate([segment.arrays["ts"][rows] for segment, rows in parts]),
        np.concatenate([segment.arrays["eids"][rows] for segment, rows in parts]),
        scores,
        final_scores,
        named,
    )
