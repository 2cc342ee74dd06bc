"""Finds the candidates of an event by bounds, and ranks them. No I/O."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from archiver.time_range import TimeRange
from recall.similarity.candidates import BEST_COUNT, ESTIMATED_COUNT, CandidateRows
from recall.similarity.comparison import Comparison, SegmentBounds
from recall.similarity.measures import MEASURES, Floats, round_scores
from recall.similarity.ranking import top_rows
from recall.similarity.segment_rows import RowsBySegment, unite_rows
from recall.similarity.segmented_corpus import SegmentedCorpus
from recall.similarity.segments import (
    MAX_LOG_LAG,
    BoundedRows,
    KnownRows,
    RowsOfSegment,
    SearchQuery,
    Segment,
)

# Scores whose ratio is above this may be equal after rounding.
TIE_FACTOR = 1 - 1e-9
# The same for differences of estimates.
_ESTIMATE_SLACK = 1e-5

# Of each segment, the rows with the highest bounds that may be scored. The limit of bounds is this
# share of the k-th highest: they are a few percent above the scores.
_MAX_BOUNDED_ROWS = 2 * BEST_COUNT
_BOUND_SHARE = 0.98
# The rows with the highest bounds of estimates that are scored.
_MAX_ESTIMATED_ROWS = ESTIMATED_COUNT * 3 // 2


class SegmentRange(NamedTuple):
    """Some rows of a segment: the first one, and the row after the last; and of these those about
    which the scorer knows more.
    """

    segment: Segment
    first: int
    last: int
    known_rows: KnownRows


class _Bounded(NamedTuple):
    """Rows with the highest bounds of their scores, and an upper bound of those of all others."""

    rows: RowsBySegment
    others_bound: float


class CandidateSearch(SegmentedCorpus):
    """A corpus that finds candidates, see `recall.similarity.candidates`."""

    def score_candidates(self, comparison: Comparison, span: TimeRange) -> tuple[int, bool]:
        """Find the candidates of a span of time, and rank all candidates.

        Returns how many events were compared, and whether the best hits have changed.
        """
        candidates = comparison.candidates
        assert candidates is not None
        ranges = []
        for position, first, last in self.spans.rows_between(span):
            segment = self.spans.segments[position]
            known_rows = self._find_known_rows(comparison, segment).slice_rows(first, last)
            ranges.append(SegmentRange(segment, first, last, known_rows))
        query = self._candidate_query(comparison)
        if query is None:
            self._add_best_by_scores(comparison, None, ranges)
            self._add_rows(
                comparison, {segment: known_rows.rows for segment, *_, known_rows in ranges}
            )
        else:
            best, estimated = self._search_bounds(comparison, query, ranges)
            self._add_rows(comparison, unite_rows(best.rows, estimated.rows))
            # If the bounds leave open which rows are the best, all that may be are scored.
            if best.others_bound > candidates.min_score:
                self._add_best_by_scores(comparison, query, ranges)
            if estimated.others_bound > candidates.min_estimate:
                self._add_rows(comparison, self._search_estimates(comparison, query, ranges))
        self.release_unheld()
        compared = sum(last - first for _, first, last, _ in ranges)
        return compared, candidates.update_top(comparison.top)

    def _find_known_rows(self, comparison: Comparison, segment: Segment) -> KnownRows:
        assert comparison.scorer is not None
        counts = self.full_counts(comparison)
        return comparison.scorer.find_known_rows(self._encode(comparison), counts, segment)

    def _add_rows(self, comparison: Comparison, rows_by_segment: RowsBySegment) -> None:
        """Score rows and add them to the candidates."""
        candidates, scorer = comparison.candidates, comparison.scorer
        assert candidates is not None and scorer is not None
        parts = [RowsOfSegment(*item) for item in rows_by_segment.items() if len(item[1])]
        if not parts:
            return
        counts = self.full_counts(comparison)
        scored = scorer.score_rows(self._encode(comparison), counts, parts)
        sequences = [segment.arrays["numbers"][rows] for segment, rows in parts]
        counted = np.concatenate(sequences) <= comparison.max_sequence
        tfidf_scores = round_scores(scored.tfidf_scores)
        counted &= tfidf_scores > 0
        times = np.concatenate([segment.arrays["ts"][rows] for segment, rows in parts])
        eids = np.concatenate([segment.arrays["eids"][rows] for segment, rows in parts])
        for scores, least, add in (
            (tfidf_scores, candidates.min_score, candidates.add_best),
            (scored.estimates, candidates.min_estimate, candidates.add_estimated),
        ):
            high = np.flatnonzero(counted & (scores >= least) & (scores > -np.inf))
            add(CandidateRows(times[high], eids[high], scores[high], scored.scores[high]))

    def _search_bounds(
        self, comparison: Comparison, query: SearchQuery, ranges: Sequence[SegmentRange]
    ) -> tuple[_Bounded, _Bounded]:
        """The rows with the highest bounds of their scores by TF-IDF, and of their estimates.

        These are a few more than are kept, so that the best are among them as a rule.
        """
        candidates = comparison.candidates
        assert candidates is not None
        limit, others_bound = candidates.min_score, 0.0
        estimate_limit = candidates.min_estimate
        best_bounds, estimate_bounds = np.zeros(0), np.zeros(0)
        best_by_segment: dict[Segment, BoundedRows] = {}
        estimated_by_segment: dict[Segment, BoundedRows] = {}
        # The newest first: the highest bounds of estimates are among them as a rule.
        for segment, first, last, known_rows in reversed(ranges):
            self._refresh_segment_bounds(segment, self._log_event_count)
            bounded, estimated = segment.search_bounds(
                query,
                known_rows,
                max_sequence=comparison.max_sequence,
                rows=(first, last),
                max_counts=(_MAX_BOUNDED_ROWS, _MAX_ESTIMATED_ROWS),
                least=(limit, estimate_limit),
                buffers=self._search_buffers,
            )
            self.release(segment)
            others_bound = max(others_bound, bounded.others_bound)
            estimated_by_segment[segment] = estimated
            if len(estimated.rows):
                estimate_bounds, lowest = _keep_highest(
                    estimate_bounds, estimated.bounds, _MAX_ESTIMATED_ROWS
                )
                estimate_limit = max(estimate_limit, lowest)
            if len(bounded.rows):
                best_by_segment[segment] = bounded
                best_bounds, lowest = _keep_highest(best_bounds, bounded.bounds, BEST_COUNT)
                limit = max(limit, lowest * _BOUND_SHARE)
        best = {}
        for segment, bounded in best_by_segment.items():
            high = bounded.bounds + bounded.skipped_bound >= limit * TIE_FACTOR
            if high.any():
                best[segment] = bounded.rows[high]
        return _Bounded(best, max(others_bound, limit)), _select_estimated(estimated_by_segment)

    def _search_estimates(
        self, comparison: Comparison, query: SearchQuery, ranges: Sequence[SegmentRange]
    ) -> RowsBySegment:
        """All rows whose estimates may be among the best."""
        assert comparison.candidates is not None
        rows = {}
        for segment, first, last, known_rows in ranges:
            if len(known_rows.rows):
                self._refresh_segment_bounds(segment, self._log_event_count)
                _, estimated = segment.search_bounds(
                    query,
                    known_rows,
                    max_sequence=comparison.max_sequence,
                    rows=(first, last),
                    max_counts=(1, len(known_rows.rows)),
                    least=(0.0, comparison.candidates.min_estimate),
                    buffers=self._search_buffers,
                )
                rows[segment] = estimated.rows
                self.release(segment)
        return rows

    def _add_best_by_scores(
        self, comparison: Comparison, query: SearchQuery | None, ranges: Sequence[SegmentRange]
    ) -> None:
        """Add the best rows by TF-IDF to the candidates. All that may be among them are scored."""
        assert comparison.candidates is not None
        min_score = comparison.candidates.min_score * TIE_FACTOR
        rows_by_segment = {}
        best_scores = np.zeros(0)
        for segment, first, last, _ in ranges:
            rows, scores = self._search_segment(
                comparison, query, segment, min_score, (first, last)
            )
            rows_by_segment[segment] = rows
            best_scores = np.sort(np.concatenate([best_scores, scores]))[-BEST_COUNT:]
            if len(best_scores) == BEST_COUNT:
                min_score = max(min_score, float(best_scores[0]))
        self._add_rows(comparison, rows_by_segment)

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
            rows_with_scores = segment.search(
                query,
                comparison.pinned_counts,
                max_sequence=comparison.max_sequence,
                rows=rows,
                k=BEST_COUNT,
                min_score=min_score,
                buffers=self._search_buffers,
            )
            self.release(segment)
            return rows_with_scores
        first, last = rows
        context = self._encode(comparison)
        scores = MEASURES["tfidf"].score_rows(
            context, segment.sparse_rows(first, last), self.full_counts(comparison)
        )
        scores[segment.arrays["numbers"][first:last] > comparison.max_sequence] = 0
        best = top_rows(scores, BEST_COUNT)
        return best + first, scores[best]

    def may_hold_candidates(self, comparison: Comparison, spans: Sequence[TimeRange]) -> list[bool]:
        """For each span of time, whether one of its events may become a candidate.

        `spans`: disjoint.
        """
        candidates = comparison.candidates
        assert candidates is not None
        bounds = self.segment_bounds(comparison)
        may_hold = bounds.scores >= candidates.min_score * TIE_FACTOR
        may_hold |= (bounds.estimates > -np.inf) & (bounds.estimates >= candidates.min_estimate)
        hopes = ((bounds.scores > 0) & may_hold).astype(np.float64)
        maxima = bounds.spans.max_by_span(hopes, spans, comparison.before_ts)
        return [hope > 0 for hope in maxima.tolist()]

    def segment_bounds(self, comparison: Comparison) -> SegmentBounds:
        """The bounds of all segments. Each is computed once, when its segment is new."""
        bounds, spans = comparison.bounds, self.spans
        if bounds is not None and bounds.spans is spans:
            return bounds
        bounds_by_segment: dict[Segment, tuple[float, float]] = {}
        if bounds is not None:
            values = zip(bounds.scores.tolist(), bounds.estimates.tolist(), strict=True)
            bounds_by_segment = dict(zip(bounds.spans.segments, values, strict=True))
        compute = self._bound_computation(comparison)
        for segment in spans.segments:
            if segment not in bounds_by_segment:
                bounds_by_segment[segment] = compute(segment)
        scores, estimates = np.zeros(len(spans.segments)), np.zeros(len(spans.segments))
        for position, segment in enumerate(spans.segments):
            scores[position], estimates[position] = bounds_by_segment[segment]
        comparison.bounds = SegmentBounds(spans, scores, estimates)
        return comparison.bounds

    def _bound_computation(
        self, comparison: Comparison
    ) -> Callable[[Segment], tuple[float, float]]:
        """Computes the bounds of a segment: of scores by TF-IDF, and of estimates."""
        query = self._candidate_query(comparison)

        def compute(segment: Segment) -> tuple[float, float]:
            offsets = self._find_known_rows(comparison, segment).offsets
            bound = math.inf
            if query is not None:
                if not segment.is_released:
                    self._refresh_segment_bounds(segment, self._log_event_count)
                bound = segment.score_bound(query, known_norms=not segment.is_released)
            return bound, bound + float(offsets.max(initial=-math.inf)) + _ESTIMATE_SLACK

        return compute

    def _candidate_query(self, comparison: Comparison) -> SearchQuery | None:
        """The event as a query by TF-IDF; None: E was pinned too long ago."""
        pinned = comparison.pinned_counts
        if pinned.log_event_count < self._log_event_count - MAX_LOG_LAG:
            return None
        return pinned.weighted_query(self._encode(comparison))


def _keep_highest(bounds: Floats, new_bounds: Floats, count: int) -> tuple[Floats, float]:
    """The `count` highest of both, and the lowest of these; -∞ if there are fewer."""
    highest: Floats = np.sort(np.concatenate([bounds, new_bounds]))[-count:]
    return highest, float(highest[0]) if len(highest) == count else -math.inf


def _select_estimated(bounded_by_segment: dict[Segment, BoundedRows]) -> _Bounded:
    """Of all rows, those with the highest bounds of their estimates."""
    bounds = np.concatenate([np.zeros(0), *(rows.bounds for rows in bounded_by_segment.values())])
    limit = -np.inf
    if len(bounds) > _MAX_ESTIMATED_ROWS:
        limit = float(np.partition(bounds, -_MAX_ESTIMATED_ROWS)[-_MAX_ESTIMATED_ROWS])
    other_bounds = [rows.others_bound for rows in bounded_by_segment.values()]
    selected = {}
    for segment, bounded in bounded_by_segment.items():
        high = bounded.bounds >= limit
        if high.any():
            selected[segment] = bounded.rows[high]
    return _Bounded(selected, max([limit, *other_bounds]))
