"""Requests: deadlines, redirects, answers that are no HTTP."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from moirae.errors import DeliveryFailed
from moirae.notify.delivery import HostPolicy, HttpClient
from moirae.notify.delivery.transport import Deadlines, parse_retry_after, parse_url


@contextmanager
def peer(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that does anything with a connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    # What is not read when the connection is closed would reset it.
                    request = b""
                    while not request.endswith(b"\r\n\r\n{}"):
                        part = connection.recv(65_536)
                        if not part:
                            break
                        request += part
                    try:
                        serve(connection)
                    except OSError:
                        return

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/x?y=1"


def post(url: str, timeout: float = 5.0) -> None:
    HttpClient(HostPolicy()).post(url, b"{}", {}, timeout=timeout)


@pytest.mark.parametrize(
    "answer", [b"204 No Content\r\n\r\n", b"200 OK\r\nContent-Length: 9\r\n\r\na"]
)
def test_message_is_taken_once_the_status_says_so(answer: bytes) -> None:
    with peer(lambda c: c.sendall(b"HTTP/1.1 " + answer)) as url:
        post(url)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"garbage\r\n\r\n", "not HTTP"),
        (b"", "cut off"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n", "redirects"),
        (b"HTTP/1.1 500 No\r\nContent-Length: 2\r\n\r\nno", "answered 500: 'no'"),
    ],
)
def test_other_answers_are_failures(answer: bytes, reason: str) -> None:
    with peer(lambda c: c.sendall(answer)) as url, pytest.raises(DeliveryFailed, match=reason):
        post(url)


def test_peer_that_sends_a_byte_now_and_then_is_left_at_the_deadline() -> None:
    def drip(connection: socket.socket) -> None:
        for byte in b"HTTP/1.1 200 OK\r\n" * 100:
            connection.sendall(bytes([byte]))
            time.sleep(0.05)

    started = time.monotonic()
    with peer(drip) as url, pytest.raises(DeliveryFailed, match=r"no answer .* within 0.5 s"):
        post(url, 0.5)
    assert time.monotonic() - started < 3


def test_rejection_and_retry_after_are_told() -> None:
    answer = b"HTTP/1.1 429 Slow\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"
    with peer(lambda c: c.sendall(answer)) as url, pytest.raises(DeliveryFailed) as caught:
        post(url)
    assert (caught.value.retry_after, caught.value.is_rejected) == (7.0, False)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("3", 3.0), ("999999", 3600.0), ("x", None), ("Thu, 01 Jan 1970 00:01:00 GMT", 50.0)],
)
def test_retry_after_is_a_number_or_a_date(value: str, seconds: float | None) -> None:
    assert parse_retry_after({"retry-after": value}, 10.0) == seconds


@pytest.mark.parametrize(
    ("url", "host", "path"),
    [
        ("http://h", "h", "/"),
        ("https://h:443/a b?c=\u00fc", "h", "/a%20b?c=%C3%BC"),
        ("http://[::1]:81/%20\r\nX: y", "[::1]:81", "/%20X:%20y"),
        ("http://b\u00fccher.example/?q", "xn--bcher-kva.example", "/?q"),
    ],
)
def test_url_becomes_host_and_path_of_a_request(url: str, host: str, path: str) -> None:
    target = parse_url(url)
    assert (target.host, target.path) == (host, path)


@pytest.mark.parametrize(
    "url", ["http://", "http://secret:99999/", "http://[secret/", "http://a..secret/"]
)
def test_invalid_url_is_an_error_that_does_not_show_it(url: str) -> None:
    with pytest.raises(DeliveryFailed) as caught:
        parse_url(url)
    assert "secret" not in str(caught.value)


def test_deadline_that_is_set_later_and_ends_sooner_is_kept() -> None:
    deadlines = Deadlines()
    far, near = socket.socketpair()
    with far, near:
        deadlines.start(far, time.monotonic() + 60)
        time.sleep(0.05)
        deadlines.start(near, time.monotonic() + 0.05)
        near.settimeout(10)
        assert near.recv(1) == b""
