"""Relations from sources that are polled in a thread: a network may be slow or unreachable."""

import threading
from abc import ABC, abstractmethod

import structlog

import sql
from archiver.threads import start_daemon
from moirae.errors import MoiraeError
from moirae.live.sources.relation_rows import RelationContent

_LOG = structlog.get_logger()

_FIRST_READ_TIMEOUT = 20.0  # seconds


class PollingRelationReader(ABC):
    """Polls a source in a thread, so that it blocks no caller."""

    def __init__(self, name: str, source_name: str, interval: float) -> None:
        """`source_name`: the source in error messages. `interval`: seconds between two polls."""
        self._name = name
        self._source_name = source_name
        self._interval = interval
        self._lock = threading.Lock()
        self._first_read_done = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._content: RelationContent | None = None
        self._error: str | None = None
        self._has_new_result = False

    @abstractmethod
    def fetch(self, fingerprint: str) -> RelationContent | None:
        """Read the source; None if its fingerprint is still the given one. Raises `MoiraeError`."""

    @property
    def fingerprint(self) -> str:
        """Identifies the version that was read last."""
        with self._lock:
            return "" if self._content is None else self._content.fingerprint

    def has_changed(self) -> bool:
        """Whether the rows differ from the last ones read, or reading them failed since.

        The first call starts the thread, and waits up to `_FIRST_READ_TIMEOUT` for the rows.
        """
        if self._thread is None and not self._first_read_done.is_set():
            self._thread = start_daemon(self._poll, f"relation {self._name}")
            if not self._first_read_done.wait(_FIRST_READ_TIMEOUT):
                self._record_error(f"no answer within {_FIRST_READ_TIMEOUT:.0f} s")
        with self._lock:
            return self._has_new_result

    def read(self) -> RelationContent:
        """The rows as of the last poll. Raises `MoiraeError` if it failed."""
        with self._lock:
            self._has_new_result = False
            if self._error is not None or self._content is None:
                raise MoiraeError(f"relation {self._name}: {self._source_name}: {self._error}")
            return self._content

    def read_again(self) -> None:
        """Return the rows of the last poll once more, though they are not new."""
        with self._lock:
            self._has_new_result = True

    def stop(self) -> None:
        """End the thread."""
        self._stop.set()

    def _poll(self) -> None:
        while True:
            try:
                self._record_content(self.fetch(self.fingerprint))
            except (sql.DatabaseError, MoiraeError) as error:
                self._record_error(str(error).strip().splitlines()[0])
            except Exception:
                _LOG.exception(
                    "cannot read relation", action="relation_failed", relation=self._name
                )
                self._record_error("cannot read it: see the log")
            self._first_read_done.set()
            if self._stop.wait(self._interval):
                return

    def _record_content(self, content: RelationContent | None) -> None:
        """Store the content of a poll; None: it is as before, and no new result but after errors."""
        with self._lock:
            if self._error is not None and self._first_read_done.is_set():
                _LOG.info(
                    "relation is readable again", action="relation_recovered", relation=self._name
                )
            is_new = content is not None and content != self._content
            self._has_new_result = self._has_new_result or self._error is not None or is_new
            self._error = None
            if is_new:
                self._content = content

    def _record_error(self, error: str) -> None:
        """Store the error of a poll; a repeated one is no new result."""
        with self._lock:
            self._has_new_result = self._has_new_result or error != self._error
            self._error = error
