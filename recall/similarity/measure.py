"""How alike two contexts are: measures behind one small interface (Moirae, CIDR 2007, §3.5)."""

from typing import Protocol

import numpy as np

from recall.similarity.corpus import Context, Counts, Floats, Rows

# The last bits of a score, which hang on the order of summing, are rounded away: what is equal on paper ties.
# Of 52 bits 40 stay, 12 digits.
_LAST = np.int64(1 << 12)


class Measure(Protocol):
    """Scores one event's context against past contexts, all with the E and C_k pinned for that event.

    Scores are 0 (nothing in common that counts) or above; only their order and 0 have a meaning across measures.
    """

    @property
    def name(self) -> str:
        """As users write it."""

    def scores(self, query: Context, past: Rows, counts: Counts) -> Floats:
        """The score of each past context."""

    def parts(self, query: Context, past: Context, counts: Counts) -> Floats:
        """What each term of the query adds to the score of one past context, up to one common factor."""


class TfIdf:
    """Cosine of the weights w(i,k) = tf(i,k) · log10(E / C_k) of the two contexts."""

    name = "tfidf"

    def scores(self, query: Context, past: Rows, counts: Counts) -> Floats:
        """See `Measure`."""
        return _cosine(query, past, counts.idf_up_to(_width(query, past)) ** 2)

    def parts(self, query: Context, past: Context, counts: Counts) -> Floats:
        """See `Measure`."""
        idf = counts.idf_up_to(_last(query))
        return query.counts * _counts_of(query, past) * idf[query.terms] ** 2


class Binary:
    """Cosine of the sets of terms: how often a term occurs, and how rare it is, count for nothing."""

    name = "binary"

    def scores(self, query: Context, past: Rows, counts: Counts) -> Floats:
        """See `Measure`."""
        return _cosine(query.binary(), past.binary(), np.ones(_width(query, past)))

    def parts(self, query: Context, past: Context, counts: Counts) -> Floats:
        """See `Measure`."""
        return _counts_of(query, past.binary())


MEASURES: dict[str, Measure] = {measure.name: measure for measure in (TfIdf(), Binary())}


def _cosine(query: Context, past: Rows, squares: Floats) -> Floats:
    """Cosines of counts times term weights, given the squares of these."""
    weights = np.zeros(len(squares))
    weights[query.terms] = query.counts * squares[query.terms]
    products = past.counted(weights)
    norms = np.sqrt(past.squared(squares) * np.sum(query.counts * weights[query.terms]))
    scores = np.divide(products, norms, out=np.zeros(len(past)), where=products > 0)
    return _rounded(scores)


def _rounded(scores: Floats) -> Floats:
    return ((scores.view(np.int64) + _LAST // 2) & -_LAST).view(np.float64)


def _counts_of(query: Context, past: Context) -> Floats:
    """How often each term of the query occurs in the past context."""
    found = np.zeros(len(query.terms))
    _, mine, theirs = np.intersect1d(query.terms, past.terms, assume_unique=True, return_indices=True)
    found[mine] = past.counts[theirs]
    return found


def _width(query: Context, past: Rows) -> int:
    return max(_last(query), past.width)


def _last(context: Context) -> int:
    return int(context.terms[-1]) + 1 if len(context.terms) else 0
