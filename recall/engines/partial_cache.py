"""Partial answers kept for other events that ask the same: by question, parameters, piece of
history and its files.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable

import pyarrow as pa

# Bytes of all that is kept in a process.
MAX_BYTES = 64 << 20
# What an entry takes beside its table.
_ENTRY_OVERHEAD = 512


class PartialCache:
    """The answers asked for last, in a bounded memory. Many threads may use it."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._used_bytes = 0
        self._answers: OrderedDict[Hashable, pa.Table | None] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, keys: set[Hashable]) -> dict[Hashable, pa.Table | None]:
        """What is known of some questions; None: nothing was found there."""
        with self._lock:
            known = {key: self._answers[key] for key in keys if key in self._answers}
            for key in known:
                self._answers.move_to_end(key)
            return known

    def put(self, key: Hashable, answer: pa.Table | None) -> None:
        """Keep an answer, and forget those that were not asked for the longest."""
        with self._lock:
            if key in self._answers or _entry_bytes(answer) > self._max_bytes:
                return
            self._answers[key] = answer
            self._used_bytes += _entry_bytes(answer)
            while self._used_bytes > self._max_bytes:
                _, oldest = self._answers.popitem(last=False)
                self._used_bytes -= _entry_bytes(oldest)

    def __len__(self) -> int:
        return len(self._answers)


def _entry_bytes(answer: pa.Table | None) -> int:
    return _ENTRY_OVERHEAD + (0 if answer is None else int(answer.nbytes))
