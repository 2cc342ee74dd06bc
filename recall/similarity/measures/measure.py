"""Similarity measures of contexts, behind one interface (Moirae, CIDR 2007, §3.5). No I/O."""

from typing import Protocol

import numpy as np

from recall.similarity.measures.corpus import ContextVector, CorpusCounts, Floats, Ids, SparseRows

# The last bits of a score depend on the order of summation. They are rounded away, so that scores
# that are mathematically equal tie: 40 of the 52 bits remain, 12 digits.
_ROUNDING_UNIT = np.int64(1 << 12)  # units in the last place
# `AttributeMeasure` uses a dense matrix of rows and attributes; this bounds its memory.
_BLOCK_ROWS = 1 << 15  # rows
# Replaces a divisor of 0; smaller than any weight above 0.
_SMALLEST_DIVISOR = 1e-300


class Measure(Protocol):
    """Scores the context of one event against past contexts, with the E and C_k pinned for it.

    A score is 0 if the contexts share no term with a weight, and positive otherwise. Positive
    scores of different measures are not comparable.
    """

    @property
    def name(self) -> str:
        """The value of `measure` in a rule file."""

    def score_rows(self, query: ContextVector, past: SparseRows, counts: CorpusCounts) -> Floats:
        """The score of each past context."""

    def term_contributions(
        self, query: ContextVector, past: ContextVector, counts: CorpusCounts
    ) -> Floats:
        """What each term of the query adds to the score, up to a common factor."""


class TfIdfMeasure:
    """Cosine of the term weights w(i,k) = tf(i,k) · log10(E / C_k) of the two contexts."""

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
    """Cosine of the sets of terms. Neither counts nor document frequencies matter."""

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
    """Compares attribute by attribute, so that none outweighs the rest.

    A term weighs its self-information ln(E / C_k), however often it occurs. For one attribute,
    |q|² and |d|² are the weights of its terms in the query and in the past context, and o that of
    the shared terms. The score is Σ o / √(|q| |d|) over the attributes, divided by √(Σ|q| · Σ|d|),
    so that equal contexts score 1.

    In a plain cosine an attribute contributes up to |q| |d|: one with many terms, such as log
    messages, outweighs all that have one term. Here it contributes up to the square root of that
    (fields are damped separately, as in BM25F: Robertson, Zaragoza, Taylor, CIKM 2004).
    """

    name = "attributes"

    def score_rows(self, query: ContextVector, past: SparseRows, counts: CorpusCounts) -> Floats:
        """See `Measure`."""
        scores = np.zeros(len(past))
        for first in range(0, len(past), _BLOCK_ROWS):
            last = min(first + _BLOCK_ROWS, len(past))
            scores[first:last] = self._score_block(query, past.slice_rows(first, last), counts)
        return round_scores(scores)

    def term_contributions(
        self, query: ContextVector, past: ContextVector, counts: CorpusCounts
    ) -> Floats:
        """See `Measure`."""
        width = max(_term_limit(query), _term_limit(past))
        information, attributes = _term_information(counts, width)
        attribute_count = int(attributes.max(initial=0)) + 1
        norms = np.ones(attribute_count)
        for context in (query, past):
            squares = np.bincount(
                attributes[context.terms], information[context.terms], attribute_count
            )
            norms *= np.maximum(squares, _SMALLEST_DIVISOR) ** 0.25
        shared = np.isin(query.terms, past.terms)
        contributions: Floats = shared * information[query.terms] / norms[attributes[query.terms]]
        return contributions

    def _score_block(self, query: ContextVector, past: SparseRows, counts: CorpusCounts) -> Floats:
        information, attributes = _term_information(counts, _vocabulary_width(query, past))
        attribute_count = int(attributes.max(initial=0)) + 1
        shape = len(past), attribute_count
        cell_count = len(past) * attribute_count
        query_norms = np.sqrt(
            np.bincount(attributes[query.terms], information[query.terms], attribute_count)
        )
        # The cell of each term of the rows in a matrix of rows and attributes.
        row_offsets = np.repeat(np.arange(len(past)) * attribute_count, np.diff(past.starts))
        cells = row_offsets + attributes[past.terms]
        weights = information[past.terms]
        past_norms = np.sqrt(np.bincount(cells, weights, cell_count)).reshape(shape)
        in_query = np.zeros(len(information), dtype=bool)
        in_query[query.terms] = True
        shared = in_query[past.terms]
        overlap = np.bincount(cells[shared], weights[shared], cell_count).reshape(shape)
        damped = overlap / np.sqrt(np.maximum(past_norms * query_norms, _SMALLEST_DIVISOR))
        total_norms = past_norms.sum(axis=1) * query_norms.sum()
        sums: Floats = damped.sum(axis=1) / np.sqrt(np.maximum(total_norms, _SMALLEST_DIVISOR))
        return sums


# The measure that learns from resolutions, see `recall.learning`; and the one by which it ranks as
# long as nothing is learned.
LEARNED_MEASURE = "learned"
UNLEARNED_MEASURE = "attributes"

OWN_MEASURES: dict[str, Measure] = {
    measure.name: measure for measure in (TfIdfMeasure(), BinaryMeasure(), AttributeMeasure())
}


def score_with_numbers(
    query: ContextVector,
    past: SparseRows,
    counts: CorpusCounts,
    *,
    numeric_products: Floats,
    query_numeric_squares: Floats,
    past_numeric_squares: Floats,
) -> Floats:
    """`TfIdfMeasure.score_rows` for contexts with numeric attributes.

    The last three are what numeric values add to the product of each row with the query, to the
    square of the query's norm (summed), and to the square of each row's norm; see
    `recall.similarity.numeric`.
    """
    return _cosine(
        query,
        past,
        counts.idf_up_to(_vocabulary_width(query, past)) ** 2,
        extra_products=numeric_products,
        extra_query_square=float(query_numeric_squares.sum()),
        extra_past_squares=past_numeric_squares,
    )


def _cosine(
    query: ContextVector,
    past: SparseRows,
    squared_weights: Floats,
    *,
    extra_products: Floats | float = 0.0,
    extra_query_square: float = 0.0,
    extra_past_squares: Floats | float = 0.0,
) -> Floats:
    """The cosine of counts times term weights. `squared_weights`: by term."""
    weights = np.zeros(len(squared_weights))
    weights[query.terms] = query.counts * squared_weights[query.terms]
    products = past.weighted_sums(weights) + extra_products
    past_squares = past.weighted_square_sums(squared_weights) + extra_past_squares
    query_square = np.sum(query.counts * weights[query.terms]) + extra_query_square
    norms = np.sqrt(past_squares * query_square)
    scores = np.divide(products, norms, out=np.zeros(len(past)), where=products > 0)
    return round_scores(scores)


def _term_information(counts: CorpusCounts, width: int) -> tuple[Floats, Ids]:
    """Self-information (nats) and attribute of the terms below `width`.

    All terms that are not in the counts share one additional attribute.
    """
    missing = max(width - len(counts.attributes), 0)
    unknown_attribute = int(counts.attributes.max(initial=-1)) + 1
    padding = np.full(missing, unknown_attribute, dtype=np.int32)
    attributes = np.concatenate([counts.attributes, padding])
    return counts.idf_up_to(len(attributes)) * np.log(10), attributes


def round_scores(scores: Floats) -> Floats:
    """Scores that are mathematically equal become equal."""
    return ((scores.view(np.int64) + _ROUNDING_UNIT // 2) & -_ROUNDING_UNIT).view(np.float64)


def _matching_counts(query: ContextVector, past: ContextVector) -> Floats:
    """How often each term of the query occurs in the past context."""
    counts = np.zeros(len(query.terms))
    _, query_positions, past_positions = np.intersect1d(
        query.terms, past.terms, assume_unique=True, return_indices=True
    )
    counts[query_positions] = past.counts[past_positions]
    return counts


def _vocabulary_width(query: ContextVector, past: SparseRows) -> int:
    return max(_term_limit(query), past.width)


def _term_limit(context: ContextVector) -> int:
    """All terms of the context are below this number."""
    if not len(context.terms):
        return 0
    return int(context.terms[-1]) + 1
