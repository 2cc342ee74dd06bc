"""Comparison of events with the past events of a corpus, by bounds and by their scores. No I/O."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from archiver.time_range import TimeRange
from recall.similarity.candidate_search import TIE_FACTOR, CandidateSearch
from recall.similarity.comparison import Comparison
from recall.similarity.events import EventKey
from recall.similarity.measures import (
    BinaryMeasure,
    ContextVector,
    Floats,
    TfIdfMeasure,
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
from recall.similarity.segments import (
    MAX_LOG_LAG,
    RowsOfSegment,
    SearchQuery,
    Segment,
)


class Index(CandidateSearch):
    """A corpus with whose events new ones are compared."""

    # Comparing

    def score(
        self, comparisons: Sequence[Comparison], spans: Sequence[TimeRange]
    ) -> list[tuple[int, bool]]:
        """Compare each event with the past events of its span of time.

        Returns for each comparison how many events it was compared with, and whether its best
        hits have changed.
        """
        results = []
        for comparison, span in zip(comparisons, spans, strict=True):
            past = span.intersect(TimeRange(None, comparison.before_ts))
            if comparison.candidates is not None:
                results.append(self.score_candidates(comparison, past))
            else:
                results.append(self._score_span(comparison, past))
        return results

    def _score_span(self, comparison: Comparison, span: TimeRange) -> tuple[int, bool]:
        """Compare an event with the past events of a span, in segments with high bounds first."""
        rows = list(self.spans.rows_between(span))
        bounds = np.full(len(self.segments), np.inf)
        if comparison.bounds is not None:
            bounds = self.segment_bounds(comparison).scores
            rows.sort(key=lambda part: -bounds[part.position])
        query = self._search_query(comparison)
        compared, changed = 0, False
        for position, first, last in rows:
            compared += last - first
            bound = bounds[position]
            if bound > 0 and bound >= comparison.top.min_score * TIE_FACTOR:
                segment = self.spans.segments[position]
                changed |= self._score_rows(comparison, query, segment, first, last)
                self.release(segment)
        return compared, changed

    def _score_rows(
        self,
        comparison: Comparison,
        query: SearchQuery | None,
        segment: Segment,
        first: int,
        last: int,
    ) -> bool:
        """Compare an event with some rows; returns whether its best hits have changed."""
        if query is None:
            rows, scores = self._score_exhaustively(segment, comparison, first, last)
        else:
            if not query.is_set:
                self._refresh_segment_bounds(segment, self._log_event_count)
            rows, scores = segment.search(
                query,
                comparison.pinned_counts,
                max_sequence=comparison.max_sequence,
                rows=(first, last),
                k=comparison.top.k,
                min_score=comparison.top.min_score,
                buffers=self._search_buffers,
            )
        if not len(rows):
            return False
        return comparison.top.add_hits(list(map(segment.key, rows.tolist())), scores)

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

    def score_bounds(self, comparison: Comparison, spans: Sequence[TimeRange]) -> Floats:
        """For each span of time, an upper bound of the scores of its events; 0: no hits.

        Computed from the terms and bounds of segments alone. Events that are added later are not
        covered. `spans`: disjoint.
        """
        bounds = self.segment_bounds(comparison)
        return bounds.spans.max_by_span(bounds.scores, spans, comparison.before_ts)

    def expected_scores(self, comparison: Comparison, spans: Sequence[TimeRange]) -> Floats:
        """For each span of time, an estimate of its best score, for ranking; not a bound.

        `spans`: disjoint.
        """
        context = self._encode(comparison)
        query = comparison.pinned_counts.weighted_query(context)
        self.refresh_bounds()
        segments = self.spans.segments
        estimates = np.array([segment.expected_score(query) for segment in segments])
        return self.spans.max_by_span(estimates, spans, comparison.before_ts)

    def _bound_computation(
        self, comparison: Comparison
    ) -> Callable[[Segment], tuple[float, float]]:
        if comparison.candidates is not None:
            return super()._bound_computation(comparison)
        query = self._search_query(comparison)
        return lambda segment: (self._score_bound(segment, comparison, query), -math.inf)

    def _score_bound(
        self, segment: Segment, comparison: Comparison, query: SearchQuery | None
    ) -> float:
        if query is not None:
            if not query.is_set and not segment.is_released:
                self._refresh_segment_bounds(segment, self._log_event_count)
            return segment.score_bound(query, known_norms=not segment.is_released)
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
