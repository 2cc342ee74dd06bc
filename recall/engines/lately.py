"""What was worked out for questions is kept for those that were asked lately: a process lives long,
rules change.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

# Questions that a process remembers. One taken apart is 60 kB of objects and takes some ten
# milliseconds to make again: more questions than this are seldom asked in turns.
DEFAULT_MAX_ENTRIES = 1_000


class LruCache(Generic[Key, Value]):
    """Values by key, of the `most` keys asked for last. Many threads may use it."""

    def __init__(self, max_entries: int = DEFAULT_MAX_ENTRIES) -> None:
        self._max_entries = max_entries
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._lock = threading.Lock()

    def get_or_create(self, key: Key, create: Callable[[], Value]) -> Value:
        """The value of a key, made when it is not known (any more); what `make` raises is not kept."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
        made = create()  # which may take long: nobody waits for it who asks something else
        with self._lock:
            value = self._values.setdefault(key, made)
            self._values.move_to_end(key)
            if len(self._values) > self._max_entries:
                self._values.popitem(last=False)
            return value

    def __contains__(self, key: Key) -> bool:
        with self._lock:
            return key in self._values

    def __len__(self) -> int:
        return len(self._values)
