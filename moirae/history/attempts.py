"""Counts attempts at tasks that may end the process. An orderly shutdown does not count."""

import threading
from collections.abc import Callable
from contextlib import suppress

import sql


class Attempts:
    """The current attempt of a process. `shut_down` may be called from another thread."""

    def __init__(self) -> None:
        self.is_shut_down = False
        """Whether the process is ending, so that failures are expected."""
        self._lock = threading.Lock()
        self._undo: Callable[[], object] | None = None

    def begin(self, record: Callable[[], object], undo: Callable[[], object]) -> bool:
        """Record an attempt and return True, unless the process is ending.

        `undo` removes the record if the process ends before `finish`.
        """
        with self._lock:
            if self.is_shut_down:
                return False
            record()
            self._undo = undo
            return True

    def finish(self) -> None:
        """The attempt has ended, successfully or not."""
        with self._lock:
            self._undo = None

    def shut_down(self) -> None:
        """Undo the record of the current attempt and allow no further one."""
        with self._lock:
            self.is_shut_down = True
            undo, self._undo = self._undo, None
            if undo is not None:
                with suppress(sql.DatabaseError):  # then it counts
                    undo()
