"""Which terms' document frequencies (C_k) have changed since a segment's bounds were computed."""

import numpy as np

from recall.similarity.measures import Floats, Ids

# Entries after which the bounds of all segments are brought up to date and the journal is cleared.
_MAX_ENTRIES = 1000


class Journal:
    """A log of changed terms. Each entry holds the terms of one added segment.

    A position in the journal is a number of entries.
    """

    def __init__(self) -> None:
        self._entries: list[Ids] = []
        # Start and end position of the last call of `since`, and its result.
        self._last_result: tuple[tuple[int, int], tuple[Ids, Floats]] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def is_full(self) -> bool:
        """Whether the journal must be cleared before the next entry."""
        return len(self._entries) >= _MAX_ENTRIES

    def record(self, terms: Ids) -> None:
        """Append an entry: C_k of these terms has changed."""
        self._entries.append(terms)

    def clear(self) -> None:
        """Drop all entries. Every segment must have processed them."""
        self._entries.clear()
        self._last_result = None

    def since(self, position: int, document_frequencies: Floats) -> tuple[Ids, Floats]:
        """The terms recorded since a position, ascending, with log10 of their C_k now.

        `document_frequencies`: C_k by term. The last result is cached, because most segments ask
        for the same positions.
        """
        span = position, len(self._entries)
        if self._last_result is None or span != self._last_result[0]:
            terms = np.unique(np.concatenate(self._entries[position:]))
            logs = np.log10(np.maximum(document_frequencies[terms], 1))
            self._last_result = span, (terms, logs)
        return self._last_result[1]
