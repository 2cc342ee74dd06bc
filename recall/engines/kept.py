"""Partial answers kept for other events that ask the same: by question, parameters, piece of history and its files."""

import threading
from collections import OrderedDict
from collections.abc import Hashable

import pyarrow as pa

# Bytes of all that is kept in a process.
ROOM = 64 << 20
# What an entry takes beside its table.
_LEAST = 512


class Kept:
    """The answers asked for last, in a bounded memory. Many threads may use it."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._taken = 0
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
            if key in self._answers or _size(answer) > self._room:
                return
            self._answers[key] = answer
            self._taken += _size(answer)
            while self._taken > self._room:
                _, oldest = self._answers.popitem(last=False)
                self._taken -= _size(oldest)

    def __len__(self) -> int:
        return len(self._answers)


def _size(answer: pa.Table | None) -> int:
    return _LEAST + (0 if answer is None else int(answer.nbytes))
