"""Routes that Slack and PagerDuty call when somebody acknowledges: signed requests without a token."""

import asyncio
from functools import partial
from typing import Literal

from fastapi import FastAPI, Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from moirae.config import Settings
from moirae.errors import RequestRejected
from moirae.notify.inbound import acknowledge_group
from moirae.server.pool import ConnectionPool
from moirae.server.responses import json_response
from moirae.server.route_table import RouteAccess
from moirae.services import callbacks

_PATH = "/api/v1/callbacks/{sender}/{receiver}"
_MAX_BODY = 256 << 10  # bytes
_BODY_TIMEOUT = 5.0  # seconds for all of it

ROUTES = [RouteAccess("POST", _PATH, None, reads_body=True)]


def add_callback_routes(
    app: FastAPI, settings: Settings, pool: ConnectionPool
) -> list[RouteAccess]:
    """Add the route."""

    @app.post(_PATH, include_in_schema=False)
    async def acknowledge(
        sender: Literal["slack", "pagerduty"], receiver: str, request: Request
    ) -> Response:
        body = await _read_body(request)
        headers = {name.lower(): value for name, value in request.headers.items()}
        number = await run_in_threadpool(partial(record, sender, receiver, headers, body))
        return json_response({"acknowledged": number})

    def record(
        sender: callbacks.Sender, receiver: str, headers: dict[str, str], body: bytes
    ) -> int:
        acknowledgement = callbacks.read_acknowledgement(settings, sender, receiver, headers, body)
        if acknowledgement is None:
            return 0
        with pool.connection() as connection:
            return acknowledge_group(connection, receiver, acknowledgement)

    return ROUTES


async def _read_body(request: Request) -> bytes:
    """The body. Raises `RequestRejected`."""
    body = bytearray()
    try:
        async with asyncio.timeout(_BODY_TIMEOUT):
            async for part in request.stream():
                body += part
                if len(body) > _MAX_BODY:
                    raise RequestRejected(413, f"body too large: limit {_MAX_BODY} bytes")
    except TimeoutError:
        raise RequestRejected(408, f"body not received within {_BODY_TIMEOUT:.0f} s") from None
    except ClientDisconnect:
        raise RequestRejected(400, "the body is truncated") from None
    return bytes(body)
