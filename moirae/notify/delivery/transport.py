"""HTTP requests to receivers: checked addresses, no redirects, a deadline for all of it."""

import heapq
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache, lru_cache
from itertools import count
from typing import Any
from urllib.parse import quote, urlsplit

from httptools import HttpParserError

from archiver.clock import unix_now
from archiver.threads import start_daemon
from moirae.errors import DeliveryFailed
from moirae.notify.delivery.hosts import HostPolicy
from moirae.notify.delivery.http_connection import Answer, HttpConnection, make_head

_MAX_ANSWER = 64 << 10  # bytes that are read of an answer
_MAX_RETRY_AFTER = 3600.0  # seconds; longer ones are cut
_MAX_SHOWN = 200  # characters of an answer in an error
_URL_CHARACTERS = "%/:=&?~+!$,;'@()*[]|"  # that stay as they are, beside letters and digits
# Answers that are about the message: others of the same receiver may be taken.
_REJECTIONS = frozenset({400, 413, 414, 422})


class Deadlines:
    """Shuts down sockets whose time has passed: a peer that sends a byte now and then, too."""

    def __init__(self) -> None:
        self._queue: list[tuple[float, int, socket.socket]] = []
        self._open: set[int] = set()
        self._numbers = count()
        self._condition = threading.Condition()
        self._is_started = False

    def start(self, opened: socket.socket, at: float) -> int:
        """Shut down a socket at a time of the monotonic clock, unless `stop` is called."""
        with self._condition:
            if not self._is_started:
                self._is_started = True
                start_daemon(self._run, "deadlines")
            number = next(self._numbers)
            self._open.add(number)
            heapq.heappush(self._queue, (at, number, opened))
            if self._queue[0][1] == number:  # else the thread wakes up before
                self._condition.notify()
            return number

    def stop(self, number: int) -> bool:
        """Returns whether the socket is still open."""
        with self._condition:
            if number in self._open:
                self._open.remove(number)
                return True
            return False

    def _run(self) -> None:
        with self._condition:
            while True:
                while self._queue and self._queue[0][1] not in self._open:
                    heapq.heappop(self._queue)
                if not self._queue:
                    self._condition.wait()
                    continue
                seconds = self._queue[0][0] - time.monotonic()
                if seconds > 0:
                    self._condition.wait(seconds)
                    continue
                _, number, opened = heapq.heappop(self._queue)
                self._open.discard(number)
                with suppress(OSError):
                    opened.shutdown(socket.SHUT_RDWR)


_DEADLINES = Deadlines()


@contextmanager
def watch_deadline(opened: socket.socket, deadline: float) -> Iterator[None]:
    """Shut down a socket if a block has not ended at a time of the monotonic clock."""
    watch = _DEADLINES.start(opened, deadline)
    try:
        yield
    finally:
        _DEADLINES.stop(watch)


class HttpClient:
    """Sends requests of one thread; connections are reused."""

    def __init__(self, policy: HostPolicy) -> None:
        self._policy = policy
        self._connections: dict[_Origin, HttpConnection] = {}

    def post(self, url: str, body: bytes, headers: Mapping[str, str], *, timeout: float) -> Answer:
        """Send a POST request. Raises `DeliveryFailed`, also for answers other than 2xx.

        `timeout`: seconds for all of it.
        """
        target = parse_url(url)
        head = make_head("POST", target.path, target.host, {**headers, **target.headers}, len(body))
        return self._request(target.origin, (head, body), timeout, _MAX_ANSWER)

    def get(
        self,
        url: str,
        headers: Mapping[str, str],
        *,
        timeout: float,
        max_answer: int = _MAX_ANSWER,
    ) -> Answer:
        """Send a GET request. As `post`. `max_answer`: bytes that are read of the answer."""
        target = parse_url(url)
        head = make_head("GET", target.path, target.host, {**headers, **target.headers}, 0)
        return self._request(target.origin, (head, b""), timeout, max_answer)

    def _request(
        self, origin: "_Origin", request: tuple[bytes, bytes], timeout: float, max_answer: int
    ) -> Answer:
        deadline = time.monotonic() + timeout
        reused = self._connections.pop(origin, None)
        answer = None
        try:
            if reused is not None:
                # The peer may have closed it meanwhile: then the request is sent again.
                with suppress(OSError, HttpParserError):
                    answer = self._exchange(reused, origin, request, deadline, max_answer)
            if answer is None:
                connection = HttpConnection(open_socket(self._policy, *origin, deadline))
                answer = self._exchange(connection, origin, request, deadline, max_answer)
        except (OSError, HttpParserError) as error:
            if time.monotonic() >= deadline:
                raise DeliveryFailed(f"no answer from {origin[1]} within {timeout:g} s") from error
            raise DeliveryFailed(f"{origin[1]}: {_describe(error)}") from error
        if not 200 <= answer.status < 300:
            raise describe_refusal(origin[1], answer)
        return answer

    def _exchange(
        self,
        connection: HttpConnection,
        origin: "_Origin",
        request: tuple[bytes, bytes],
        deadline: float,
        max_answer: int,
    ) -> Answer:
        watch = _DEADLINES.start(connection.socket, deadline)
        is_open = False
        try:
            answer = connection.exchange(*request, max_answer)
        finally:
            is_open = _DEADLINES.stop(watch)
            if is_open and connection.is_reusable:
                self._connections[origin] = connection
            else:
                connection.close()
        return answer


_Origin = tuple[str, str, int]
"""Scheme, host and port."""


@dataclass(frozen=True)
class RequestTarget:
    """What a request needs of a URL. `host`: for the header. `headers`: of the URL's user."""

    origin: _Origin
    host: str
    path: str
    headers: Mapping[str, str]


@lru_cache(maxsize=256)
def parse_url(url: str) -> RequestTarget:
    """The parts of an http(s) URL. Raises `DeliveryFailed`, without the URL, which may be secret."""
    try:
        parts = urlsplit(url)
        port = parts.port
        host = (parts.hostname or "").encode("idna").decode()
    except ValueError:
        raise DeliveryFailed("the URL of the receiver is invalid") from None
    if not host:
        raise DeliveryFailed("the URL of the receiver has no host")
    default = 443 if parts.scheme == "https" else 80
    shown = f"[{host}]" if ":" in host else host
    if port not in (None, default):
        shown += f":{port}"
    path = quote(parts.path or "/", safe=_URL_CHARACTERS)
    if parts.query:
        path += f"?{quote(parts.query, safe=_URL_CHARACTERS)}"
    credentials = _basic_auth(parts.username, parts.password)
    return RequestTarget((parts.scheme, host, port or default), shown, path, credentials)


def open_socket(
    policy: HostPolicy, scheme: str, host: str, port: int, deadline: float
) -> socket.socket:
    """A socket that is connected to a host, with TLS for https. Raises `DeliveryFailed`."""
    opened = connect(policy, host, port, deadline)
    if scheme != "https":
        return opened
    try:
        secured = _tls_context().wrap_socket(
            opened, server_hostname=host, do_handshake_on_connect=False
        )
    except (OSError, ValueError) as error:
        opened.close()
        raise DeliveryFailed(f"{host}: TLS failed: {_describe(error)}") from error
    try:
        with watch_deadline(secured, deadline):
            secured.do_handshake()
    except (OSError, ValueError) as error:
        secured.close()
        raise DeliveryFailed(f"{host}: TLS failed: {_describe(error)}") from error
    return secured


@cache
def _tls_context() -> ssl.SSLContext:
    """Reading the system's certificates takes some 20 ms."""
    return ssl.create_default_context()


def connect(policy: HostPolicy, host: str, port: int, deadline: float) -> socket.socket:
    """A socket that is connected to a host, whose address is checked. Raises `DeliveryFailed`."""
    failure: OSError | None = None
    addresses = policy.resolve(host, port, deadline)
    for index, (family, *target) in enumerate(addresses):
        opened = socket.socket(family, socket.SOCK_STREAM)
        try:
            # An address that does not answer leaves time for the others.
            seconds = (deadline - time.monotonic()) / (len(addresses) - index)
            opened.settimeout(max(0.001, seconds))
            opened.connect(tuple(target))
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return opened
        except OSError as error:
            opened.close()
            failure = error
    assert failure is not None
    raise DeliveryFailed(f"cannot connect to {host}:{port}: {_describe(failure)}") from failure


def describe_refusal(host: str, answer: Answer) -> DeliveryFailed:
    """The error of an answer other than 2xx."""
    if 300 <= answer.status < 400:
        return DeliveryFailed(f"{host} redirects ({answer.status}): redirects are not followed")
    text = answer.body.decode("utf-8", "replace").strip()[:_MAX_SHOWN]
    reason = f"{host} answered {answer.status}"
    if text:
        reason += f": {text!r}"
    return DeliveryFailed(
        reason,
        retry_after=parse_retry_after(answer.headers, unix_now()),
        is_rejected=answer.status in _REJECTIONS,
    )


def parse_retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds of the header Retry-After: a number, or a date of the clock."""
    for name, value in headers.items():
        if name.lower() != "retry-after":
            continue
        if value.strip().isascii() and value.strip().isdigit():
            return min(float(value), _MAX_RETRY_AFTER)
        with suppress(ValueError, TypeError, OverflowError):
            return min(max(0.0, parsedate_to_datetime(value).timestamp() - now), _MAX_RETRY_AFTER)
    return None


def _basic_auth(username: str | None, password: str | None) -> dict[str, str]:
    """The header of the user in a URL."""
    if username is None:
        return {}
    from base64 import b64encode
    from urllib.parse import unquote

    credentials = f"{unquote(username)}:{unquote(password or '')}".encode()
    return {"Authorization": f"Basic {b64encode(credentials).decode()}"}


def _describe(error: Any) -> str:
    """An error of a connection, without what the peer has sent."""
    if isinstance(error, HttpParserError):
        return "the answer is not HTTP, or was cut off"
    return str(getattr(error, "strerror", None) or error) or type(error).__name__
