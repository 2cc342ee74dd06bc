"""The contexts of events that may be voted for, once neither they nor the counts change. No I/O."""

import numpy as np
import numpy.typing as npt

from recall.similarity.measures import ContextVector, CorpusCounts, Floats, SparseRows

_LN10 = float(np.log(10.0))


class FixedVoters:
    """Scores by `attributes`, as `score_by_measures` computes them, over inverted lists.

    What depends on the rows alone is computed once. Then a score takes only the terms that are
    shared, a tenth of all.
    """

    def __init__(self, rows: SparseRows, counts: CorpusCounts) -> None:
        self._counts = counts
        self._row_count = len(rows)
        # Terms that are not in the counts share an attribute.
        self._width = int(counts.attributes.max(initial=-1)) + 2
        attributes, weights = self._weigh_terms(rows.terms)
        row_numbers = np.repeat(np.arange(len(rows)), np.diff(rows.starts))
        self._norms = self._sum_by_attribute(row_numbers * self._width + attributes, weights)
        np.sqrt(self._norms, out=self._norms)
        self._norm_sums = self._norms.sum(axis=1)
        order = np.argsort(rows.terms, kind="stable")
        self._terms = rows.terms[order]
        self._row_numbers = row_numbers[order]

    def score(self, context: ContextVector) -> Floats:
        """The scores of all rows, rounded so that mathematically equal ones tie."""
        attributes, weights = self._weigh_terms(context.terms)
        query_norms = np.sqrt(np.bincount(attributes, weights, self._width))
        low = np.searchsorted(self._terms, context.terms, side="left")
        sizes = np.searchsorted(self._terms, context.terms, side="right") - low
        starts = np.cumsum(sizes) - sizes
        positions = np.arange(sizes.sum()) + np.repeat(low - starts, sizes)
        cells = self._row_numbers[positions] * self._width + np.repeat(attributes, sizes)
        overlaps = self._sum_by_attribute(cells, np.repeat(weights, sizes))
        with np.errstate(invalid="ignore", divide="ignore"):
            parts = overlaps / np.sqrt(self._norms * query_norms)
            parts[overlaps <= 0] = 0.0
            scores = parts.sum(axis=1) / np.sqrt(self._norm_sums * query_norms.sum())
        scores[np.isnan(scores)] = 0.0
        rounded: Floats = np.round(scores, 12)
        return rounded

    def _weigh_terms(self, terms: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.int64], Floats]:
        """The attribute and the weight of each term."""
        attributes = np.full(len(terms), self._width - 1)
        counted = terms < len(self._counts.attributes)
        attributes[counted] = self._counts.attributes[terms[counted]]
        frequencies = np.ones(len(terms))
        counted = terms < len(self._counts.document_frequencies)
        frequencies[counted] = self._counts.document_frequencies[terms[counted]]
        shares: Floats = max(self._counts.event_count, 1) / np.maximum(frequencies, 1.0)
        return attributes, np.log10(shares) * _LN10

    def _sum_by_attribute(self, cells: npt.NDArray[np.int64], weights: Floats) -> Floats:
        """Sums by row and attribute. `cells`: row · number of attributes + attribute."""
        sums = np.bincount(cells, weights, self._row_count * self._width).astype(np.float64)
        return sums.reshape(self._row_count, self._width)
