"""By which receivers know the first message of each group, for edits and threads."""

import threading
from collections.abc import Mapping


class ThreadMemory:
    """Threads by receiver and group; used by the threads of all receivers."""

    def __init__(self, threads: Mapping[tuple[str, str], str]) -> None:
        self._threads = dict(threads)
        self._lock = threading.Lock()

    def get(self, receiver: str, group_key: str) -> str | None:
        """The first message of a group; None: it is not known."""
        with self._lock:
            return self._threads.get((receiver, group_key))

    def put(self, receiver: str, group_key: str, thread: str) -> None:
        """Note the first message of a group."""
        with self._lock:
            self._threads[receiver, group_key] = thread
