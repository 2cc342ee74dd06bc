"""HEAD has the status and the headers of GET, and no body."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Message

from moirae.server.head_requests import answer_head_requests

sent_lines: list[int] = []


async def text(request: Request) -> Response:
    return PlainTextResponse("long" * 1000, headers={"ETag": request.query_params.get("tag", "")})


async def refused(_: Request) -> Response:
    return PlainTextResponse("busy", 503)


async def endless(_: Request) -> Response:
    async def lines() -> AsyncIterator[str]:
        number = 0
        while True:
            sent_lines.append(number)
            yield f"{number}\n"
            await asyncio.sleep(0.01)

    return StreamingResponse(lines(), media_type="text/event-stream")


APP = answer_head_requests(
    Starlette(
        routes=[
            Route("/text", text, methods=["GET"]),
            Route("/refused", refused, methods=["GET"]),
            Route("/endless", endless, methods=["GET"]),
            Route("/change", text, methods=["POST"]),
        ]
    )
)


def ask(method: str, path: str) -> httpx.Response:
    async def request() -> httpx.Response:
        transport = httpx.ASGITransport(app=APP)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await asyncio.wait_for(client.request(method, path), 10)

    return asyncio.run(request())


@pytest.mark.parametrize("path", ["/text?tag=1", "/refused", "/nowhere"])
def test_head_has_status_and_headers_of_get(path: str) -> None:
    head, get = ask("HEAD", path), ask("GET", path)
    assert (head.status_code, head.headers) == (get.status_code, get.headers)
    assert head.content == b""
    assert get.content


def test_head_of_an_endless_response_ends_after_the_headers() -> None:
    sent_lines.clear()
    response = ask("HEAD", "/endless")
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert len(sent_lines) < 5


def test_head_of_a_change_is_refused() -> None:
    assert ask("HEAD", "/change").status_code == 405


def test_other_messages_than_http_are_passed_on() -> None:
    scopes: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        scopes.append(scope)

    async def unused(*_: Message) -> Any:
        raise AssertionError

    asyncio.run(answer_head_requests(app)({"type": "lifespan"}, unused, unused))
    assert scopes == [{"type": "lifespan"}]
