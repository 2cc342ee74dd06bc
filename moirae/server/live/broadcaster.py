"""Sends changes to all live clients: one reader of the database for any number of clients.

Everything here runs in the event loop, except what is passed to a thread.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import suppress
from uuid import UUID

import structlog
from starlette.concurrency import run_in_threadpool

import sql
from moirae.alerts import ChangeLog
from moirae.errors import RequestRejected
from moirae.server.live.changes import LiveEvent, read_changes
from moirae.server.live.status import read_live_status
from moirae.server.pool import ConnectionPool
from sql.reports import ChangePosition

_LOG = structlog.get_logger()

MAX_CLIENTS = 150
MAX_PENDING_BYTES = 1 << 20
"""Of a client's events that are queued or being sent. A client that falls further behind is
disconnected, and resumes by the ID of its last event."""
_POLL_INTERVAL = 0.25  # seconds
_RETRY_DELAY = 2.0  # seconds after the database could not be read
_STATUS_INTERVAL = 2.0  # seconds
_RIGHTS_INTERVAL = 10.0  # seconds between checks that the tokens of clients are still valid
_BATCH_SIZE = 200  # changes read at once
_CLIENT_RETRY = 5  # seconds after which a client may retry


class LiveClient:
    """A client and its events that are not sent yet.

    `kinds`: of the events it gets; None: all. `eid`: only about this event.
    """

    def __init__(
        self,
        is_authorized: Callable[[sql.Connection], bool],
        kinds: Collection[str] | None = None,
        eid: UUID | None = None,
    ) -> None:
        self.is_authorized = is_authorized
        self._kinds = kinds
        self._eid = eid
        self._pending: deque[bytes] = deque()
        self._pending_bytes = 0
        self._sending_bytes = 0
        self._wake = asyncio.Event()
        self.is_closed = False
        self.position = ChangePosition(0, 0)
        """Changes up to here have been sent before the client was added."""

    def wants(self, event: LiveEvent) -> bool:
        """Whether the client gets an event."""
        if event.kind == "reset":
            return True
        if self._kinds is not None and event.kind not in self._kinds:
            return False
        return self._eid is None or event.eid == self._eid

    def offer(self, event: LiveEvent, encoded: bytes) -> None:
        """Queue an event; a client that is too far behind is closed."""
        if self.is_closed or not self.wants(event):
            return
        if event.position is not None and event.position <= self.position:
            return
        self._pending.append(encoded)
        self._pending_bytes += len(encoded)
        if self._pending_bytes + self._sending_bytes > MAX_PENDING_BYTES:
            self.close()
        self._wake.set()

    def close(self) -> None:
        """End the client's stream and free its events."""
        self.is_closed = True
        self._pending.clear()
        self._pending_bytes = 0
        self._wake.set()

    async def next_events(self, timeout: float) -> bytes:
        """All events that are queued; empty if none came within a time, or the stream ended.

        They count as being sent until the next call.
        """
        self._sending_bytes = 0
        if not self._pending and not self.is_closed:
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    await self._wake.wait()
        self._wake.clear()
        content = b"".join(self._pending)
        self._pending.clear()
        self._sending_bytes, self._pending_bytes = self._pending_bytes, 0
        return content


class Broadcaster:
    """The live clients of the server. Reads changes while there are any."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._clients: set[LiveClient] = set()
        self._connecting: set[LiveClient] = set()
        """Clients that get what they have missed; they are not in `_clients` yet."""
        self._position: ChangePosition | None = None
        self._status = b""
        self._task: asyncio.Task[None] | None = None

    async def attach(
        self, client: LiveClient, after: ChangePosition | None
    ) -> AsyncGenerator[bytes]:
        """Yield what the client has missed since a position, then add it to the clients.

        It ends early when the client is closed. `after` None: nothing is missed. Raises
        `RequestRejected` if there are too many clients.
        """
        if len(self._clients) + len(self._connecting) >= MAX_CLIENTS:
            raise RequestRejected(503, "too many live clients", _CLIENT_RETRY)
        self._connecting.add(client)
        try:
            await self._start()
            assert self._position is not None
            if after is not None and not await run_in_threadpool(self._is_stored, after):
                yield LiveEvent("reset", b"{}", self._position).encode()
                after = None
            position = self._position if after is None else after
            # No `await` lies between the comparison and the addition: no change is lost or doubled.
            while position < self._position and not client.is_closed:
                events, position = await run_in_threadpool(self._read, position, self._position)
                content = b"".join(event.encode() for event in events if client.wants(event))
                del events  # not needed while the client reads
                yield content
            client.position = position
            if self._status:
                client.offer(*_status_event(self._status))
            self._clients.add(client)
        finally:
            self._connecting.discard(client)

    @property
    def position(self) -> ChangePosition:
        """The position up to which clients have been offered their events."""
        assert self._position is not None
        return self._position

    def detach(self, client: LiveClient) -> None:
        """Remove a client."""
        client.close()
        self._clients.discard(client)

    async def _start(self) -> None:
        """Start to read changes, unless that is done already."""
        if self._task is not None and not self._task.done():
            return
        position = await run_in_threadpool(self._newest_position)
        # Another client may have started it meanwhile: then its position is the one that counts.
        if self._task is None or self._task.done():
            self._position = position
            self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        status_at = rights_at = 0.0
        is_reachable = True
        while self._clients or self._connecting:
            try:
                await self._poll()
                now = time.monotonic()
                if now >= status_at:
                    status_at = now + _STATUS_INTERVAL
                    self._send_status(await run_in_threadpool(self._read_status))
                if now >= rights_at:
                    rights_at = now + _RIGHTS_INTERVAL
                    clients = [*self._clients, *self._connecting]
                    for client in await run_in_threadpool(self._find_unauthorized, clients):
                        client.close()
                is_reachable = True
            except Exception as error:
                # The clients stay: they get what they have missed once the database can be read.
                if is_reachable:
                    _LOG.warning(
                        "live changes cannot be read, retrying",
                        action="live_changes_unavailable",
                        error=str(error),
                    )
                is_reachable = False
                await asyncio.sleep(_RETRY_DELAY)
            await asyncio.sleep(_POLL_INTERVAL)

    async def _poll(self) -> None:
        """Send the changes since the last time."""
        assert self._position is not None
        while True:
            events, position = await run_in_threadpool(self._read, self._position, None)
            if position == self._position:
                return
            self._position = position
            for event in events:
                encoded = event.encode()
                for client in list(self._clients):
                    client.offer(event, encoded)

    def _send_status(self, status: bytes) -> None:
        if status == self._status:
            return
        self._status = status
        event, encoded = _status_event(status)
        for client in list(self._clients):
            client.offer(event, encoded)

    def _read(
        self, after: ChangePosition, upto: ChangePosition | None
    ) -> tuple[list[LiveEvent], ChangePosition]:
        with self._pool.connection() as connection:
            events, position = read_changes(connection, after, limit=_BATCH_SIZE, upto=upto)
        if upto is not None and position == after:
            return events, upto  # the rest was deleted meanwhile
        return events, position

    def _newest_position(self) -> ChangePosition:
        with self._pool.connection() as connection:
            return ChangeLog(connection).newest()

    def _is_stored(self, position: ChangePosition) -> bool:
        """Whether all changes after a position are stored."""
        with self._pool.connection() as connection:
            return ChangeLog(connection).has_all_after(position)

    def _read_status(self) -> bytes:
        with self._pool.connection() as connection:
            return read_live_status(connection)

    def _find_unauthorized(self, clients: Collection[LiveClient]) -> list[LiveClient]:
        with self._pool.connection() as connection:
            return [client for client in clients if not client.is_authorized(connection)]


def _status_event(status: bytes) -> tuple[LiveEvent, bytes]:
    event = LiveEvent("status", status)
    return event, event.encode()
