"""Requests and answers of HTTP/1.1 over a socket."""

import socket
import threading
from collections.abc import Sequence
from contextlib import suppress

import pytest
from httptools import HttpParserError

from moirae.errors import DeliveryFailed
from moirae.notify.delivery.http_connection import Answer, HttpConnection, make_head

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def exchange(
    parts: Sequence[bytes], *, is_closed: bool = False, max_answer: int = 100
) -> tuple[Answer, bool]:
    """An answer that comes in parts; also whether the connection is reusable."""
    client, peer = socket.socketpair()
    with peer:
        connection = HttpConnection(client)
        for part in parts:
            peer.sendall(part)
        if is_closed:
            peer.shutdown(socket.SHUT_WR)
        answer = connection.exchange(b"POST / HTTP/1.1\r\n\r\n", b"{}", max_answer)
        connection.close()
    return answer, connection.is_reusable


@pytest.mark.parametrize(
    ("parts", "status", "body", "is_reusable"),
    [
        ([OK], 200, b"ok", True),
        ([OK[:9], OK[9:30], OK[30:]], 200, b"ok", True),
        ([b"HTTP/1.1 100 Continue\r\nX: 1\r\n\r\n", OK], 200, b"ok", True),
        ([b"HTTP/1.1 204 No Content\r\n\r\n"], 204, b"", True),
        ([b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"], 200, b"ok", False),
        ([OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n")], 200, b"ok", False),
        ([OK + b"more"], 200, b"ok", False),
        ([b"HTTP/1.1 503 No\nContent-Length: 0\n\n"], 503, b"", True),
        (
            [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n1\r\nk\r\n0\r\n\r\n"],
            200,
            b"ok",
            True,
        ),
    ],
)
def test_answer_is_read_to_its_end(
    parts: Sequence[bytes], status: int, body: bytes, is_reusable: bool
) -> None:
    answer, reusable = exchange(parts)
    assert (answer.status, answer.body, reusable) == (status, body, is_reusable)
    assert "x" not in answer.headers


def test_body_without_length_ends_with_the_connection() -> None:
    answer, reusable = exchange([b"HTTP/1.1 200 OK\r\n\r\nabc"], is_closed=True)
    assert (answer.body, reusable) == (b"abc", False)


def test_no_more_is_read_of_a_body_than_asked_for() -> None:
    answer, reusable = exchange([OK + b"x" * 50], max_answer=1)
    assert (answer.body, reusable) == (b"o", False)


@pytest.mark.parametrize(
    "parts",
    [
        [b""],
        [OK[:20]],
        [b"SSH-2.0-OpenSSH\r\n"],
        [b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"],
        [OK.replace(b"\r\n\r\n", b"\r\nContent-Length: 3\r\n\r\n")],
        [b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 70_000],
    ],
)
def test_answer_that_is_no_http_or_cut_off_is_an_error(parts: Sequence[bytes]) -> None:
    with pytest.raises(HttpParserError):
        exchange(parts, is_closed=True)


def test_trailers_without_end_are_left() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no\r\n0\r\n"
    client, peer = socket.socketpair()
    sent = 0

    def send_trailers() -> None:
        nonlocal sent
        with peer, suppress(OSError):
            peer.sendall(head)
            for number in range(20_000):
                sent += peer.send(b"X-%d: %s\r\n" % (number, b"y" * 1000))

    sender = threading.Thread(target=send_trailers)
    sender.start()
    connection = HttpConnection(client)
    answer = connection.exchange(b"POST / HTTP/1.1\r\n\r\n", b"{}", 100)
    connection.close()
    sender.join()
    assert (answer.status, answer.body) == (200, b"o")
    assert not connection.is_reusable
    assert sent < 2_000_000


def test_requests_follow_each_other_on_a_connection() -> None:
    client, peer = socket.socketpair()
    with peer:
        connection = HttpConnection(client)
        for status in (200, 404, 200):
            peer.sendall(b"HTTP/1.1 %d X\r\nContent-Length: 0\r\n\r\n" % status)
            assert connection.exchange(b"GET / HTTP/1.1\r\n\r\n", b"", 10).status == status
            assert connection.is_reusable
        connection.close()


@pytest.mark.parametrize("value", ["a\r\nX: y", "a\n", "a\0", "\u20ac"])
def test_no_header_is_injected_and_no_value_is_shown(value: str) -> None:
    with pytest.raises(DeliveryFailed) as caught:
        make_head("POST", "/", "host", {"Authorization": value}, 0)
    assert value not in str(caught.value)


def test_head_names_host_and_length() -> None:
    assert make_head("POST", "/x?y", "host:81", {"A": "b"}, 7) == (
        b"POST /x?y HTTP/1.1\r\nHost: host:81\r\nAccept-Encoding: identity\r\nA: b\r\n"
        b"Content-Length: 7\r\n\r\n"
    )
