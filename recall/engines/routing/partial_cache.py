"""A cache of partial answers, for other events that ask the same of the same files."""

import threading
from collections.abc import Hashable

import pyarrow as pa
from cachetools import LRUCache

MAX_BYTES = 64 << 20  # of all entries in a process
_ENTRY_OVERHEAD = 512  # bytes of an entry without its table


class PartialCache:
    """The partial answers that were used last, up to `max_bytes`. Thread-safe.

    A key is made of the query, its parameters, the piece of history and the files of the piece.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._answers: LRUCache[Hashable, pa.Table | None] = LRUCache(max_bytes, _entry_bytes)
        self._lock = threading.Lock()

    def get(self, keys: set[Hashable]) -> dict[Hashable, pa.Table | None]:
        """The cached answers among some keys; None: the piece has no matching rows."""
        with self._lock:
            return {key: self._answers[key] for key in keys if key in self._answers}

    def put(self, key: Hashable, answer: pa.Table | None) -> None:
        """Cache an answer, unless it alone exceeds the size of the cache."""
        with self._lock:
            if key not in self._answers and _entry_bytes(answer) <= self._answers.maxsize:
                self._answers[key] = answer

    def __len__(self) -> int:
        return len(self._answers)


def _entry_bytes(answer: pa.Table | None) -> int:
    return _ENTRY_OVERHEAD + (0 if answer is None else int(answer.nbytes))
