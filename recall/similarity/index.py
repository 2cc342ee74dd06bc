"""Comparison of events with the past events of a corpus, by bounds and by their scores. No I/O."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from archiver.time_range import TimeRange
from recall.similarity.candidates import BEST_COUNT, CandidateRows, Mask
from recall.similarity.comparison import Comparison, ScoredRows
from recall.similarity.events import EventKey
from recall.similarity.measures import (
    MEASURES,
    BinaryMeasure,
    ContextVector,
    Floats,
    TfIdfMeasure,
    round_scores,
    score_with_numbers,
)
from recall.similarity.numeric import (
    NO_VALUES,
    Scales,
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
from recall.similarity.segmented_corpus import SegmentedCorpus
from recall.similarity.segments import (
    MAX_LOG_LAG,
    BoundedRows,
    RowsOfSegment,
    SearchQuery,
    Segment,
)
from recall.similarity.spans import max_by_span

# Scores whose ratio is above this may be equal after rounding.
_TIE_FACTOR = 1 - 1e-9

# Of each segment, the rows with the highest bounds that may be scored. The limit of bounds is this
# share of the k-th highest: they are a few percent above the scores.
_MAX_BOUNDED_ROWS = 2 * BEST_COUNT
_BOUND_SHARE = 0.98

# A segment with some of its rows: the first one, and the row after the last.
SegmentRange = tuple[Segment, int, int]


class Index(SegmentedCorpus):
    """A corpus with whose events new ones are compared."""

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
