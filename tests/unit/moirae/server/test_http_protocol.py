"""Connections whose clients do not send the headers of a request."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from starlette.responses import PlainTextResponse

from moirae.server import http_protocol
from moirae.server.http_protocol import HttpProtocol
from moirae.server.responses import set_identity
from moirae.services.tokens import Identity

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
TIMEOUT = 0.2  # seconds

Client = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[Any]]


async def answer_slowly(scope: Any, receive: Any, send: Any) -> None:
    """Answers after the time in which headers must have arrived."""
    await asyncio.sleep(2 * TIMEOUT)
    await PlainTextResponse("reached")(scope, receive, send)


async def answer_known_client(scope: Any, receive: Any, send: Any) -> None:
    set_identity(scope, Identity("1", "prometheus", "source"))
    await PlainTextResponse("reached")(scope, receive, send)


def connect(
    monkeypatch: pytest.MonkeyPatch, client: Client, application: Any = answer_slowly
) -> Any:
    """What a client of a running server returns."""
    monkeypatch.setattr(http_protocol, "HEADER_TIMEOUT", TIMEOUT)

    async def run() -> Any:
        with socket.create_server(("127.0.0.1", 0)) as listening_socket:
            config = uvicorn.Config(
                application,
                http=HttpProtocol,
                lifespan="off",
                log_config=None,
                timeout_keep_alive=1,
            )
            server = uvicorn.Server(config)
            task = asyncio.create_task(server.serve([listening_socket]))
            reader, writer = await asyncio.open_connection(*listening_socket.getsockname())
            try:
                return await asyncio.wait_for(client(reader, writer), 10)
            finally:
                writer.close()
                server.should_exit = True
                await task

    return asyncio.run(run())


@pytest.mark.parametrize("sent", [b"", REQUEST[:-2]])
def test_connection_without_headers_is_closed(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(sent)
        return await reader.read()

    assert connect(monkeypatch, wait) == b""


def test_slow_response_and_its_successor_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask_twice(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[bytes]:
        responses = []
        for _ in range(2):
            writer.write(REQUEST)
            responses.append(await reader.readuntil(b"reached"))
        writer.write(REQUEST[:10])
        assert await reader.read() == b""  # closed, as the headers do not end
        return responses

    for response in connect(monkeypatch, ask_twice):
        assert response.startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("application", [answer_known_client, answer_slowly])
def test_idle_connection_of_a_known_client_stays(
    monkeypatch: pytest.MonkeyPatch, application: Any
) -> None:
    async def ask_again_later(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(REQUEST)
        await reader.readuntil(b"reached")
        await asyncio.sleep(1.2)  # longer than both times of a client that is not known
        writer.write(REQUEST)
        return await reader.read(8)

    expected = b"HTTP/1.1" if application is answer_known_client else b""
    assert connect(monkeypatch, ask_again_later, application) == expected
