"""HTTP connections with a time limit for the headers of each request.

uvicorn has no such limit: `timeout_keep_alive` runs from a response to the first byte of the next
request. Connections count for `limit_concurrency`, so that clients without a token could use up
all of them.

A client that has shown a token or session may leave its connection idle for longer: senders such as
Prometheus keep connections for some minutes, and a request that is sent while the server closes
its connection is lost.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from moirae.server.limits import HEADER_TIMEOUT, IDENTIFIED_KEEP_ALIVE_TIMEOUT
from moirae.server.responses import has_identity


class HttpProtocol(H11Protocol):
    """Closes a connection that has not sent the headers of a request in time."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._start_header_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._stop_header_timer()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """The next request may follow."""
        idle = 0
        if has_identity(self.scope):
            idle = self.timeout_keep_alive = IDENTIFIED_KEEP_ALIVE_TIMEOUT
        self._start_header_timer(idle)
        super().on_response_complete()

    def _start_header_timer(self, idle: float = 0) -> None:
        """`idle`: seconds before the first byte, besides."""
        self._stop_header_timer()
        self._header_timer = self.loop.call_later(idle + HEADER_TIMEOUT, self._close_if_waiting)

    def _stop_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _close_if_waiting(self) -> None:
        """Close the connection unless a request is being served; its response starts a timer."""
        cycle = self.cycle  # None before the first request, which uvicorn's annotation omits
        is_waiting = cycle is None or cycle.response_complete  # type: ignore[redundant-expr]
        if is_waiting and not self.transport.is_closing():
            self.transport.close()
