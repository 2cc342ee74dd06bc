"""How alike two contexts are: measures behind one small interface (Moirae, CIDR 2007, §3.5)."""

from typing import Protocol

import numpy as np

from recall.similarity.corpus import ContextVector, CorpusCounts, Floats, Ids, SparseRows

# The last bits of a score, which hang on the order of summing, are rounded away: what is equal on paper ties.
# Of 52 bits 40 stay, 12 digits.
_ROUNDING_UNIT = np.int64(1 << 12)
# Rows compared at once, where each has a place for each attribute: bounds the memory.
_BLOCK_ROWS = 1 << 15
# Less than any weight that counts; a divisor in the place of 0.
_SMALLEST_DIVISOR = 1e-300


class Measure(Protocol):
    """Scores one event's context against past contexts, all with the E and C_k pinned for that event.

    Scores are 0 (nothing in common that counts) or above; only their order and 0 have a meaning across measures.
    """

    @property
    def name(self) -> str:
        """As users write it."""

    def score_rows(self, query: ContextVector, past: SparseRows, counts: CorpusCounts) -> Floats:
        """The score of each past context."""

    def term_contributions(
        self, query: ContextVector, past: ContextVector, counts: CorpusCounts
    ) -> Floats:
        """What each term of the query adds to the score of one past context, up to one common factor."""


class TfIdfMeasure:
    """Cosine of the weights w(i,k) = tf(i,k) · log10(E / C_k) of the two contexts."""

    name = "tfidf"

    def score_rows(self, query: ContextVector, past: SparseRows, counts: CorpusCounts) -> Floats:
        """See `Measure`."""
        return _cosine(query, past, counts.idf_up_to(_vocabulary_width(query, past)) ** 2)

    def term_contributions(
        self, query: ContextVector, past: ContextVector, counts: CorpusCounts
    ) -> Floats:
        """See `Measure`."""
        idf = counts.idf_up_to(_term_limit(query))
        return query.counts * _matching_counts(query, past) * idf[query.terms] ** 2


class BinaryMeasure:
    """Cosine of the sets of terms: how often a term occurs, and how rare it is, count for nothing."""

    name = "binary"

    def score_rows(self, query: ContextVector, past: SparseRows, counts: CorpusCounts) -> Floats:
        """See `Measure`."""
        return _cosine(query.to_binary(), past.to_binary(), np.ones(_vocabulary_width(query, past)))

    def term_contributions(
        self, query: ContextVector, past: ContextVector, counts: CorpusCounts
    ) -> Floats:
        """See `Measure`."""
        return _matching_counts(query, past.to_binary())


class AttributeMeasure:
    """Each attribute compared by itself, and none drowns the others.

    A term weighs its self-information ln(E / C_k), however often it occurs. Of one attribute, |q|² is the weight of
    its terms in q, and o that of the terms shared; the score is Σ o / √(|q| |d|) over the attributes, divided by
    √(Σ|q| · Σ|d|), so that equal contexts score 1. In a plain cosine an attribute counts by |q| |d|: one with many
    terms, such as messages of a log, outvotes all that have one. Here it counts by the square root of that (fields
    are damped one by one, as in BM25F: Robertson, Zaragoza, Taylor, CIKM 2004).
    """

    name = "attributes"

    def score_rows(self, query: ContextVector, past: SparseRows, counts: CorpusCounts) -> Floats:
        """See `Measure`."""
        scores = np.zeros(len(past))
        for first in range(0, len(past), _BLOCK_ROWS):
            last = min(first + _BLOCK_ROWS, len(past))
            scores[first:last] = self._score_block(query, past.slice_rows(first, last), counts)
        return _rounded(scores)

    def term_contributions(
        self, query: ContextVector, past: ContextVector, counts: CorpusCounts
    ) -> Floats:
        """See `Measure`."""
        information, attributes = _information(counts, max(_term_limit(query), _term_limit(past)))
        size = int(attributes.max(initial=0)) + 1
        norms = np.ones(size)
        for context in (query, past):
            squares = np.bincount(attributes[context.terms], information[context.terms], size)
            norms *= np.maximum(squares, _SMALLEST_DIVISOR) ** 0.25
        shared = np.isin(query.terms, past.terms)
        parts: Floats = shared * information[query.terms] / norms[attributes[query.terms]]
        return parts

    def _score_block(self, query: ContextVector, past: SparseRows, counts: CorpusCounts) -> Floats:
        information, attributes = _information(counts, _vocabulary_width(query, past))
        size = int(attributes.max(initial=0)) + 1
        asked = np.sqrt(np.bincount(attributes[query.terms], information[query.terms], size))
        place = (
            np.repeat(np.arange(len(past)) * size, np.diff(past.starts)) + attributes[past.terms]
        )
        weights = information[past.terms]
        held = np.sqrt(np.bincount(place, weights, len(past) * size)).reshape(len(past), size)
        mine = np.zeros(len(information), dtype=bool)
        mine[query.terms] = True
        both = mine[past.terms]
        overlap = np.bincount(place[both], weights[both], len(past) * size).reshape(len(past), size)
        damped = overlap / np.sqrt(np.maximum(held * asked, _SMALLEST_DIVISOR))
        sums: Floats = damped.sum(axis=1) / np.sqrt(
            np.maximum(held.sum(axis=1) * asked.sum(), _SMALLEST_DIVISOR)
        )
        return sums


MEASURES: dict[str, Measure] = {
    measure.name: measure for measure in (TfIdfMeasure(), BinaryMeasure(), AttributeMeasure())
}


def _information(counts: CorpusCounts, width: int) -> tuple[Floats, Ids]:
    """Self-information of the terms below `width`, in nats, and their attributes. A term that was counted nowhere
    has an attribute of its own."""
    missing = max(width - len(counts.attributes), 0)
    new = int(counts.attributes.max(initial=-1)) + 1
    attributes = np.concatenate([counts.attributes, np.full(missing, new, dtype=np.int32)])
    return counts.idf_up_to(len(attributes)) * np.log(10), attributes


def score_with_numbers(
    query: ContextVector,
    past: SparseRows,
    counts: CorpusCounts,
    products: Floats,
    query_squares: Floats,
    squares: Floats,
) -> Floats:
    """`TfIdf` where contexts have numeric attributes too, see `recall.similarity.numeric`: what these add to the
    product of each row with the query, to the square of the query's norm and to those of the rows."""
    return _cosine(
        query,
        past,
        counts.idf_up_to(_vocabulary_width(query, past)) ** 2,
        products,
        float(query_squares.sum()),
        squares,
    )


def _cosine(
    query: ContextVector,
    past: SparseRows,
    squares: Floats,
    near: Floats | float = 0.0,
    own: float = 0.0,
    theirs: Floats | float = 0.0,
) -> Floats:
    """Cosines of counts times term weights, given the squares of these."""
    weights = np.zeros(len(squares))
    weights[query.terms] = query.counts * squares[query.terms]
    products = past.weighted_sums(weights) + near
    norms = np.sqrt(
        (past.weighted_square_sums(squares) + theirs)
        * (np.sum(query.counts * weights[query.terms]) + own)
    )
    scores = np.divide(products, norms, out=np.zeros(len(past)), where=products > 0)
    return _rounded(scores)


def _rounded(scores: Floats) -> Floats:
    return ((scores.view(np.int64) + _ROUNDING_UNIT // 2) & -_ROUNDING_UNIT).view(np.float64)


def _matching_counts(query: ContextVector, past: ContextVector) -> Floats:
    """How often each term of the query occurs in the past context."""
    found = np.zeros(len(query.terms))
    _, mine, theirs = np.intersect1d(
        query.terms, past.terms, assume_unique=True, return_indices=True
    )
    found[mine] = past.counts[theirs]
    return found


def _vocabulary_width(query: ContextVector, past: SparseRows) -> int:
    return max(_term_limit(query), past.width)


def _term_limit(context: ContextVector) -> int:
    return int(context.terms[-1]) + 1 if len(context.terms) else 0
