"""HTTP/1.1 over a connected socket: one request after the other, of one thread."""

import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from moirae.errors import DeliveryFailed

_MAX_READ = 16 << 10  # bytes that are read at once
_MAX_HEAD = 64 << 10  # bytes of an answer before its body
_MAX_OVERHEAD = 8  # bytes that are read for a byte of the body: chunks may be as short


@dataclass(frozen=True)
class Answer:
    """The answer to a request. `headers`: names in lower case. `body`: the start of it."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpConnection:
    """A connection. `is_reusable`: whether another request may follow the last one.

    The socket is shut down by who watches the deadline.
    """

    def __init__(self, opened: socket.socket) -> None:
        opened.settimeout(None)  # with a timeout, each read and write is two system calls
        self.socket = opened
        self.is_reusable = False
        self._parser = HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True)

    def exchange(self, head: bytes, body: bytes, max_answer: int) -> Answer:
        """Send a request; returns its answer with `max_answer` bytes of the body at most.

        Raises `OSError`, and `HttpParserError` if the answer is no HTTP or is cut off before its
        body.
        """
        self.is_reusable = False
        self._status = 0
        self._headers: dict[str, str] = {}
        self._body = b""
        self._max_body = max_answer
        self._is_complete = False
        self.socket.sendall(head + body)
        size = 0
        while not self._is_complete:
            received = self.socket.recv(_MAX_READ)
            if not received:
                break
            size += len(received)
            self._feed(received)
            if size > _MAX_HEAD + (_MAX_OVERHEAD * max_answer if self._status else 0):
                break  # a head, chunks or trailers without end
        if not self._status:
            raise HttpParserError("the answer is cut off, or its head is too long")
        return Answer(self._status, self._headers, self._body)

    def close(self) -> None:
        """Close the socket."""
        with suppress(OSError):
            self.socket.close()

    def _feed(self, received: bytes) -> None:
        try:
            self._parser.feed_data(received)
        except HttpParserUpgrade:
            raise HttpParserError("the answer changes the protocol") from None
        except HttpParserError:
            if not self._is_complete:
                raise
            self.is_reusable = False  # something follows the answer

    # Called by the parser

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header has come."""
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """All headers have come."""
        status = self._parser.get_status_code()
        if status >= 200:
            self._status = status

    def on_body(self, part: bytes) -> None:
        """A part of the body has come."""
        self._body += part[: self._max_body - len(self._body)]
        if len(self._body) == self._max_body:
            self._is_complete = True

    def on_message_complete(self) -> None:
        """The answer is complete, or one before it, such as 100 Continue."""
        if self._status:
            self.is_reusable = self._parser.should_keep_alive()
            self._is_complete = True
        else:
            self._headers.clear()


def make_head(
    method: str, target: str, host: str, headers: Mapping[str, str], body_size: int
) -> bytes:
    """The head of a request. Raises `DeliveryFailed`, without the values."""
    lines = [f"{method} {target} HTTP/1.1", f"Host: {host}", "Accept-Encoding: identity"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if method == "POST":
        lines.append(f"Content-Length: {body_size}")
    head = "\r\n".join(lines)
    if head.count("\r") != len(lines) - 1 or head.count("\n") != len(lines) - 1 or "\0" in head:
        raise DeliveryFailed("a header, such as one with a token, contains a line break")
    try:
        return f"{head}\r\n\r\n".encode("latin-1")
    except UnicodeEncodeError:
        raise DeliveryFailed(
            "a header, such as one with a token, contains a character beyond Latin-1"
        ) from None
