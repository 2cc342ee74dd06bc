"""E and C_k as they were pinned for one question, and queries weighted with them. No I/O."""

import math
from dataclasses import dataclass

import numpy as np

from archiver.times import Micros
from recall.similarity.measures import ContextVector, Floats, Ids


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A context as the compiled search takes it: terms with a weight, rarest first.

    By term, with the names of `kernel.search`: `gains` are tf · idf², `weights` tf · idf, and
    `log_frequencies` log10(C_k). `norm` is the norm of the whole context. With `is_set`, contexts
    are compared as sets of terms that all weigh 1.
    """

    terms: Ids
    gains: Floats
    weights: Floats
    norm: float
    log_frequencies: Floats
    is_set: bool = False


@dataclass(frozen=True)
class PinnedCounts:
    """E and C_k of one question: the counts of the whole index, shared, plus a few changes."""

    event_count: int
    """E."""
    base_frequencies: Floats
    """C_k by term, before the changes. No event contains the terms beyond its end."""
    changed_terms: Ids
    """The terms whose C_k differs, ascending."""
    frequency_changes: Floats
    """What to add to the C_k of `changed_terms`."""
    newest_ts: Micros | None
    """Time of the newest counted event; None: no event is counted."""

    def document_frequencies(self, terms: Ids) -> Floats:
        """C_k of some terms, at least 1."""
        frequencies = np.zeros(len(terms))
        in_base = terms < len(self.base_frequencies)
        frequencies[in_base] = self.base_frequencies[terms[in_base]]
        positions = np.searchsorted(self.changed_terms, terms)
        changed = positions < len(self.changed_terms)
        changed[changed] = self.changed_terms[positions[changed]] == terms[changed]
        frequencies[changed] += self.frequency_changes[positions[changed]]
        at_least_one: Floats = np.maximum(frequencies, 1)
        return at_least_one

    @property
    def log_event_count(self) -> float:
        """log10(E)."""
        return math.log10(max(self.event_count, 1))

    def weighted_query(self, context: ContextVector) -> SearchQuery:
        """The context with TF-IDF weights."""
        frequencies = self.document_frequencies(context.terms)
        logs, idf = np.log10(frequencies), np.log10(max(self.event_count, 1) / frequencies)
        weights = context.counts * idf
        norm = math.sqrt(float(np.sum(weights**2)))
        order = np.argsort(-idf, kind="stable")
        order = order[weights[order] > 0]
        return SearchQuery(
            terms=context.terms[order],
            gains=(weights * idf)[order],
            weights=weights[order],
            norm=norm,
            log_frequencies=logs[order],
        )

    def set_query(self, context: ContextVector) -> SearchQuery:
        """The set of the context's terms, each with weight 1."""
        order = np.argsort(self.document_frequencies(context.terms), kind="stable")
        ones = np.ones(len(order))
        return SearchQuery(
            terms=context.terms[order],
            gains=ones,
            weights=ones,
            norm=math.sqrt(len(order)),
            log_frequencies=np.zeros(len(order)),
            is_set=True,
        )
