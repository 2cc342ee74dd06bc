"""Which terms came to be held by more contexts, since each segment's bounds were made."""

import numpy as np

from recall.similarity.corpus import Floats, Ids

# Changes that are noted before all bounds have to be brought up to them.
_ROOM = 1000


class Journal:
    """Terms whose C_k has changed, piece by piece; a place in it is a number of pieces."""

    def __init__(self) -> None:
        self._pieces: list[Ids] = []
        self._told: tuple[tuple[int, int], tuple[Ids, Floats]] | None = None

    def __len__(self) -> int:
        return len(self._pieces)

    @property
    def full(self) -> bool:
        """Whether it is to be cleared before more is noted."""
        return len(self._pieces) >= _ROOM

    def note(self, terms: Ids) -> None:
        """C_k of these has changed."""
        self._pieces.append(terms)

    def clear(self) -> None:
        """Begin anew: everybody knows what was noted."""
        self._pieces.clear()
        self._told = None

    def since(self, place: int, held: Floats) -> tuple[Ids, Floats]:
        """Terms noted since a place, with the logarithm of their C_k, `held` by term; most segments ask the same."""
        asked = place, len(self._pieces)
        if self._told is None or asked != self._told[0]:
            terms = np.unique(np.concatenate(self._pieces[place:]))
            self._told = asked, (terms, np.log10(np.maximum(held[terms], 1)))
        return self._told[1]
