"""The route of live events: server-sent events with IDs, which a client can resume after."""

import asyncio
from contextlib import aclosing, suppress
from typing import Annotated, Literal
from uuid import UUID

from fastapi import FastAPI, Header, Query, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

import sql
from moirae.alerts import format_position, parse_position
from moirae.server.access import session_cookie_name
from moirae.server.live.broadcaster import Broadcaster, LiveClient
from moirae.server.pool import ConnectionPool
from moirae.server.responses import read_identity
from moirae.server.route_table import RouteAccess
from moirae.services import API_PREFIX, tokens
from sql.access import TokenGateway
from sql.reports import ChangePosition

LIVE_PATH = f"{API_PREFIX}/live"
ROUTES = [RouteAccess("GET", LIVE_PATH, "viewer")]
_KEEP_ALIVE = 15.0  # seconds without events after which a comment is sent
_SEND_TIMEOUT = 30.0  # seconds in which a client must read what was sent
# Of one message. The server writes a whole message into the buffer of the connection, and waits for
# the client only before the next one.
_MESSAGE_BYTES = 64 << 10
_RECONNECT_DELAY = b"retry: 1000\n\n"  # milliseconds

LiveKind = Literal["alert", "recall", "revision", "boundary", "status"]


def add_live_route(app: FastAPI, pool: ConnectionPool) -> list[RouteAccess]:
    """Add the route of live events."""
    broadcaster = Broadcaster(pool)

    @app.get(
        LIVE_PATH,
        tags=["live"],
        response_class=Response,
        responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
        openapi_extra={"x-required-role": "viewer"},
    )
    async def live(
        request: Request,
        kind: Annotated[
            list[LiveKind] | None, Query(description="Only these kinds of events.")
        ] = None,
        event: Annotated[UUID | None, Query(description="Only about this event.")] = None,
        last_event_id: Annotated[
            str | None, Header(description="The ID of the last event that was received.")
        ] = None,
    ) -> Response:
        """Follow alerts, recalls, revisions with their boundaries, and the status."""
        client = LiveClient(_make_rights_check(request), kind, event)
        after = None if last_event_id is None else parse_position(last_event_id)
        return EventStreamResponse(broadcaster, client, after)

    return ROUTES


def _make_rights_check(request: Request) -> "_RightsCheck":
    cookie = request.cookies.get(session_cookie_name(request.scope))
    identity = read_identity(request.scope)
    return _RightsCheck(identity, cookie if identity.csrf_token is not None else None)


class _RightsCheck:
    """Whether the token of a request, or its session, is still valid."""

    def __init__(self, identity: tokens.Identity, cookie: str | None) -> None:
        self._identity = identity
        self._cookie = cookie

    def __call__(self, connection: sql.Connection) -> bool:
        if self._cookie is not None:
            return tokens.find_session(connection, self._cookie) is not None
        return TokenGateway(connection).get_active(self._identity.token_id) is not None


class EventStreamResponse(Response):
    """Sends the events of a client until it disconnects, is too slow, or loses its rights.

    Memory of a client: at most `MAX_PENDING_BYTES`, or a page of what it has missed
    (`MAX_PAGE_BYTES` and one event), and the buffer of its connection (64 KiB and one message).
    """

    media_type = "text/event-stream"

    def __init__(
        self, broadcaster: Broadcaster, client: LiveClient, after: ChangePosition | None
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._broadcaster = broadcaster
        self._client = client
        self._after = after

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response (ASGI)."""
        disconnected = asyncio.create_task(self._await_disconnect(receive))
        try:
            with suppress(TimeoutError, OSError):
                await self._send_events(send)
        finally:
            self._broadcaster.detach(self._client)
            disconnected.cancel()

    async def _await_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._client.close()

    async def _send_events(self, send: Send) -> None:
        async with aclosing(self._broadcaster.attach(self._client, self._after)) as missed:
            first = await anext(missed, b"")  # raises before the response starts
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await _send_body(send, _RECONNECT_DELAY + first)
            async for content in missed:
                if content and not self._client.is_closed:
                    await _send_body(send, content)
        # A client that has got no change yet can resume as well.
        position = self._client.position
        if not self._client.is_closed:
            await _send_body(send, _encode_position(position))
        while not self._client.is_closed:
            content = await self._client.next_events(_KEEP_ALIVE)
            if self._client.is_closed:
                break
            content = content or b": keep-alive\n\n"
            # All events of the client up to here are in `content`, as nothing was awaited since.
            if self._broadcaster.position > position:
                position = self._broadcaster.position
                content += _encode_position(position)
            await _send_body(send, content)
        await _send_body(send, b"", has_more=False)


def _encode_position(position: ChangePosition) -> bytes:
    """An ID without data: browsers note it for `Last-Event-ID`, and dispatch no event.

    Without it, a client whose filters select nothing would keep an ID whose successors expire.
    """
    return f"id: {format_position(position)}\n\n".encode()


async def _send_body(send: Send, content: bytes, has_more: bool = True) -> None:
    """Raises `TimeoutError` if the client does not read."""
    async with asyncio.timeout(_SEND_TIMEOUT):
        for start in range(0, max(len(content), 1), _MESSAGE_BYTES):
            part = content[start : start + _MESSAGE_BYTES]
            await send({"type": "http.response.body", "body": part, "more_body": has_more})
