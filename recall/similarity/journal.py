"""Which terms came to be held by more contexts, since each segment's bounds were made."""

import numpy as np

from recall.similarity.corpus import Floats, Ids

# Changes that are noted before all bounds have to be brought up to them.
_MAX_ENTRIES = 1000


class Journal:
    """Terms whose C_k has changed, piece by piece; a place in it is a number of pieces."""

    def __init__(self) -> None:
        self._entries: list[Ids] = []
        self._last_result: tuple[tuple[int, int], tuple[Ids, Floats]] | None = None

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def is_full(self) -> bool:
        """Whether it is to be cleared before more is noted."""
        return len(self._entries) >= _MAX_ENTRIES

    def record(self, terms: Ids) -> None:
        """C_k of these has changed."""
        self._entries.append(terms)

    def clear(self) -> None:
        """Begin anew: everybody knows what was noted."""
        self._entries.clear()
        self._last_result = None

    def since(self, position: int, document_frequencies: Floats) -> tuple[Ids, Floats]:
        """Terms noted since a place, with the logarithm of their C_k, `held` by term; most segments ask the same."""
        asked = position, len(self._entries)
        if self._last_result is None or asked != self._last_result[0]:
            terms = np.unique(np.concatenate(self._entries[position:]))
            self._last_result = asked, (terms, np.log10(np.maximum(document_frequencies[terms], 1)))
        return self._last_result[1]
