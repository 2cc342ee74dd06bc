"""A bounded cache for what follows from rules: processes live long, rules change."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from cachetools import LRUCache

Key = TypeVar("Key")
Value = TypeVar("Value")

# Questions that a process remembers. A parsed one takes 60 kB and some ten milliseconds to create.
DEFAULT_MAX_ENTRIES = 1_000


class LruCache(Generic[Key, Value]):
    """The values of the `max_entries` keys that were used last. Thread-safe."""

    def __init__(self, max_entries: int = DEFAULT_MAX_ENTRIES) -> None:
        self._values: LRUCache[Key, Value] = LRUCache(max_entries)
        self._lock = threading.Lock()

    def get_or_create(self, key: Key, create: Callable[[], Value]) -> Value:
        """The value of a key, created if it is not cached; exceptions are not cached."""
        with self._lock:
            if key in self._values:
                return self._values[key]
        value = create()  # may take long: without the lock
        with self._lock:
            # If another thread was faster, all get its object.
            return self._values.setdefault(key, value)

    def clear(self) -> None:
        """Drop all values."""
        with self._lock:
            self._values.clear()

    def __contains__(self, key: Key) -> bool:
        with self._lock:
            return key in self._values

    def __len__(self) -> int:
        return len(self._values)
