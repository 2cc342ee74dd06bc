"""What is being tried, once more each time, until it is given up: who ends in good order in the midst has not tried."""

import threading
from collections.abc import Callable
from contextlib import suppress

import psycopg


class Attempts:
    """One thing at a time. Work is done in one thread, the end may come from another."""

    def __init__(self) -> None:
        self.is_shut_down = False
        """What fails from here on fails because the process ends."""
        self._lock = threading.Lock()
        self._undo: Callable[[], object] | None = None

    def begin(self, record: Callable[[], object], undo: Callable[[], object]) -> bool:
        """Count a try, unless the process ends; `untried` takes it back."""
        with self._lock:
            if self.is_shut_down:
                return False
            record()
            self._undo = undo
            return True

    def finish(self) -> None:
        """It has been tried, with whatever success."""
        with self._lock:
            self._undo = None

    def shut_down(self) -> None:
        """The process ends: what is under way is left to the next, and was no try. Nothing is begun any more."""
        with self._lock:
            self.is_shut_down, untried, self._undo = True, self._undo, None
            if untried is not None:
                with suppress(psycopg.Error):  # then it was one
                    untried()
