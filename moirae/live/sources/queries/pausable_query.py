"""A streaming query that runs only while there may be input for it."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from moirae.live.sources.queries.query_pause import QueryPause


class PausableQuery:
    """A query, started anew after each pause: its checkpoint tells what it has handled.

    `lock` is held while a batch is ingested; `start_query` starts the query, and `has_unread`
    tells whether there may be input that it has not handled.
    """

    def __init__(
        self,
        *,
        lock: threading.Lock,
        start_query: Callable[[], StreamingQuery],
        has_unread: Callable[[], bool],
    ) -> None:
        self._lock = lock
        self._start_query = start_query
        self._has_unread = has_unread
        self._pause = QueryPause(time.monotonic())
        self._query: StreamingQuery | None = None

    def start(self) -> None:
        """Start the query."""
        self._query = self._start_query()

    @property
    def is_paused(self) -> bool:
        """Whether the query is stopped, for want of input."""
        return self._pause.is_paused

    def record_batch(self) -> None:
        """Record that a batch is being ingested; the lock is held."""
        self._pause.record_batch(time.monotonic())

    def update(self) -> None:
        """Pause or continue the query, as its input demands; the lock is not held."""
        with self._lock:
            must_change = self._pause.update(time.monotonic(), self._has_unread)
        if not must_change:
            return
        if self.is_paused:
            # No batch is being ingested, and one that begins now is refused.
            self.stop()
        else:
            self.start()

    def stop(self) -> None:
        """Stop the query, after which it can be started again."""
        if self._query is not None:
            self._query.stop()

    def is_running(self) -> bool:
        """Whether Spark runs the query."""
        return not self.is_paused and self._query is not None and bool(self._query.isActive)

    def last_progress(self) -> Mapping[str, Any] | None:
        """The last progress that Spark reported since the query was started."""
        if self._query is None:
            return None
        progress: Mapping[str, Any] | None = self._query.lastProgress
        return progress

    def failure(self) -> Exception | None:
        """The error that ended the query."""
        if self._query is None or self.is_paused:
            return None
        return self._query.exception()
