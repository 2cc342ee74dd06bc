"""A local Slack that speaks Socket Mode: `apps.connections.open`, then a WebSocket."""

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, CloseConnection, Ping, Pong, Request, TextMessage

_HELLO = {
    "type": "hello",
    "num_connections": 1,
    "connection_info": {"app_id": "A1"},
    "debug_info": {"host": "applink-1", "approximate_connection_time": 18060},
}


@dataclass
class LocalSlack:
    """`to_send`: envelopes for the next connection, or "ping". `received`: what clients sent.

    `tokens`: of requests to open a connection.
    """

    api: str = ""
    to_send: "SimpleQueue[Any]" = field(default_factory=SimpleQueue)
    received: "SimpleQueue[Any]" = field(default_factory=SimpleQueue)
    tokens: list[str] = field(default_factory=list)
    address: str | None = None
    answer: dict[str, Any] = field(default_factory=lambda: {"ok": True})


@contextmanager
def local_slack() -> Iterator[LocalSlack]:
    """Serve on a free port of the loopback device."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    slack = LocalSlack(api=f"http://127.0.0.1:{port}")
    slack.address = f"ws://127.0.0.1:{port}/link/?ticket=t"

    def accept() -> None:
        while True:
            try:
                opened, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=_serve, args=(slack, opened), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield slack
    finally:
        slack.to_send.put(None)
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _serve(slack: LocalSlack, opened: socket.socket) -> None:
    with opened, suppress(OSError):
        head = b""
        while b"\r\n\r\n" not in head:
            part = opened.recv(4096)
            if not part:
                return
            head += part
        if head.startswith(b"POST /apps.connections.open"):
            lines = head.decode().split("\r\n")
            slack.tokens += [line for line in lines if line.lower().startswith("authorization")]
            body = json.dumps({"url": slack.address, **slack.answer}).encode()
            length = f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            opened.sendall(f"HTTP/1.1 200 OK\r\n{length}".encode() + body)
            return
        _speak(slack, opened, head)


def _speak(slack: LocalSlack, opened: socket.socket, head: bytes) -> None:
    protocol = WSConnection(ConnectionType.SERVER)
    protocol.receive_data(head)
    for event in protocol.events():
        assert isinstance(event, Request)
        slack.received.put(event.target)
    opened.sendall(protocol.send(AcceptConnection()))
    opened.sendall(protocol.send(TextMessage(data=json.dumps(_HELLO))))

    def read() -> None:
        with suppress(OSError):
            while received := opened.recv(4096):
                protocol.receive_data(received)
                for event in protocol.events():
                    if isinstance(event, TextMessage):
                        slack.received.put(json.loads(event.data))
                    if isinstance(event, Pong):
                        slack.received.put("pong")

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    while (message := slack.to_send.get()) is not None:
        if message == "ping":
            opened.sendall(protocol.send(Ping(payload=b"p")))
        elif message == "close":
            opened.sendall(protocol.send(CloseConnection(code=1001)))
            return
        else:
            opened.sendall(protocol.send(TextMessage(data=json.dumps(message))))
            if message.get("type") == "disconnect":
                reader.join(10)  # the client closes
                return
