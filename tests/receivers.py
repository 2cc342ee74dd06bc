"""A local HTTP server that records what notifications send, and answers as a test says."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Received:
    """A request. `at`: seconds of the clock."""

    path: str
    headers: dict[str, str]
    body: bytes
    at: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answer = tuple[int, dict[str, str], bytes] | bytes | None


@dataclass
class FakeReceiver:
    """`answer`: status, headers and body for a request, bytes that are no HTTP, or None: close
    without an answer. Only requests with a status are recorded.
    """

    url: str = ""
    requests: list[Received] = field(default_factory=list)
    answer: Callable[[Received], Answer] = lambda _: (200, {}, b"ok")

    def alert_names(self) -> list[list[str]]:
        """Of each webhook message, the names of its alerts with their states."""
        return [
            [
                f"{alert['labels']['alertname']} {alert['status']}"
                for alert in request.json["alerts"]
            ]
            for request in self.requests
        ]


@contextmanager
def fake_receiver(port: int = 0) -> Iterator[FakeReceiver]:
    """Serve on a port of the loopback device; 0: on a free one."""
    receiver = FakeReceiver()
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length)
            if len(body) < length:  # the client was killed while it sent
                self.close_connection = True
                return
            request = Received(self.path, dict(self.headers.items()), body, time.time())
            answer = receiver.answer(request)
            if answer is None or isinstance(answer, bytes):
                self.wfile.write(answer or b"")
                self.close_connection = True
                return
            status, headers, body = answer
            with lock:
                receiver.requests.append(request)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # of killed clients
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    receiver.url = f"http://127.0.0.1:{server.server_port}/"
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
