"""Access control in front of all routes: Host and Origin headers, bodies, tokens, sessions, rates.

It is not a dependency of routes: a request without a token must not learn which routes exist. Hosts
are not checked by Starlette's `TrustedHostMiddleware`: it takes a fixed list; here every IP address
is valid.
"""

import asyncio
import contextlib
import hashlib
import hmac
import ipaddress
import time
from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import urlsplit

import structlog
from cachetools import LRUCache
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from moirae.errors import MoiraeError, RequestRejected
from moirae.server.limits import (
    BODY_TIMEOUT,
    MAX_BODY_BYTES,
    MAX_CLIENT_BODIES,
    MAX_CLIENT_PUBLIC_BODIES,
    MAX_CONCURRENT_BODIES,
    MAX_CONCURRENT_PUBLIC_BODIES,
    MAX_PUBLIC_BODY_BYTES,
    PUBLIC_BODY_TIMEOUT,
    ConcurrencyLimiter,
    RateLimiter,
)
from moirae.server.pool import ConnectionPool
from moirae.server.responses import (
    DATABASE_RETRY,
    DATABASE_UNREACHABLE,
    error_response,
    find_rpc_media_type,
    read_identity,
    read_media_type,
    set_identity,
)
from moirae.server.route_table import SAFE_METHODS, RouteAccess, RouteTable
from moirae.services import tokens
from moirae.services.tokens import Identity

_LOG = structlog.get_logger()

SESSION_COOKIE = "moirae_session"
SECURE_SESSION_COOKIE = "__Host-moirae_session"
CSRF_HEADER = "x-csrf-token"
# Only some routes have a body. Elsewhere a Content-Length of up to four digits is tolerated: some
# clients send a small body with every POST.
_MAX_LENGTH_DIGITS = 4
_UNIQUE_HEADERS = ("host", "authorization", "origin", "content-length", CSRF_HEADER)
_COMMON_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
)
_CONTENT_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
_TRANSPORT_SECURITY = (b"strict-transport-security", b"max-age=31536000")
_MAX_LOGGED_PATH = 200  # characters
_SHORT_BODY_TIMEOUT = 1.0  # seconds, in which the body of a refused request is received
_RATE_RETRY = 1  # seconds after which a client may retry
_TOO_MANY_REFUSED = "too many invalid tokens, logins and refused requests from this address"
# Logins, invalid tokens and refused requests of one address.
_FAILURES_PER_SECOND = 20.0
_FAILURE_BURST = 400.0
_BURST_SECONDS = 10  # of requests of a token at once
_DEFAULT_RATE = 100.0  # requests of a token per second
_MAX_CREDENTIALS = 10_000  # that were valid; the least recent are forgotten
# How long a token is taken as valid while the database, which knows if it was revoked, is unreachable.
_TRUSTED_SECONDS = 3600.0
_BEARER = HTTPBearer(auto_error=False)


@dataclass(frozen=True)
class _ValidCredential:
    """Whose token or cookie was valid, and when, in seconds of the monotonic clock."""

    identity: Identity
    checked_at: float

    def is_recent(self) -> bool:
        return time.monotonic() - self.checked_at <= _TRUSTED_SECONDS


class AccessMiddleware:
    """ASGI middleware that rejects unauthorized requests and adds security headers."""

    def __init__(
        self,
        app: ASGIApp,
        pool: ConnectionPool,
        hosts: Collection[str],
        routes: RouteTable | None = None,
        rate: float = _DEFAULT_RATE,
    ) -> None:
        """`hosts`: names accepted in the Host header, besides `localhost` and IP addresses.

        `rate`: requests of one token per second.
        """
        self._app = app
        self._pool = pool
        self._hosts = {host.lower() for host in hosts} | {"localhost"}
        self._routes = routes or RouteTable()
        self._requests = RateLimiter(rate, rate * _BURST_SECONDS)
        self._failures = RateLimiter(_FAILURES_PER_SECOND, _FAILURE_BURST)
        self._bodies = ConcurrencyLimiter(MAX_CONCURRENT_BODIES, MAX_CLIENT_BODIES)
        # Clients without a token must not take the slots of the others.
        self._public_bodies = ConcurrencyLimiter(
            MAX_CONCURRENT_PUBLIC_BODIES, MAX_CLIENT_PUBLIC_BODIES
        )
        self._valid_credentials: LRUCache[bytes, _ValidCredential] = LRUCache(_MAX_CREDENTIALS)
        """By the hash of a token or cookie that was valid: failures of others at the same address do
        not affect it."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = _add_headers(scope, message.get("headers", []))
                if message["status"] >= 400:
                    _LOG.info(
                        "request refused",
                        action="request_refused",
                        method=scope["method"],
                        path=scope["path"][:_MAX_LOGGED_PATH],
                        status=message["status"],
                    )
            await send(message)

        try:
            route = await self._authorize(scope)
            if route.has_json_body:
                await self._serve_with_body(route, scope, receive, send_with_headers)
                return
        except RequestRejected as rejection:
            headers = Headers(scope=scope)
            route = self._routes.find(scope["method"], scope["path"])
            response = error_response(rejection, find_rpc_media_type(route, headers))
            if rejection.status == 405:
                response.headers["Allow"] = ", ".join(self._routes.list_methods(scope["path"]))
            await _receive_short_body(scope, receive)
            await response(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    async def _authorize(self, scope: Scope) -> RouteAccess:
        """The route of a request. Raises `RequestRejected` unless it is allowed."""
        path, method = scope["path"], scope["method"]
        headers = Headers(scope=scope)
        try:
            route = self._check_headers(method, path, headers)
        except RequestRejected:
            self._take_failure(scope)
            raise
        if route.role is None:
            if method not in SAFE_METHODS:
                self._take_failure(scope)  # counted as one: a login may fail
            return route
        identity = await self._identify(scope, route)
        if not self._requests.take(identity.token_id):
            raise RequestRejected(
                route.overload_status, "too many requests of this token", _RATE_RETRY
            )
        methods = self._routes.list_methods(path)
        if methods and route.method not in methods:
            raise RequestRejected(405, f"{method} is not supported: use {' or '.join(methods)}")
        if not identity.may(route.role, is_query=route.is_query):
            raise RequestRejected(403, f"permission denied: role {route.role} required")
        if identity.csrf_token is not None and method not in SAFE_METHODS:
            _check_csrf(headers, identity.csrf_token)
        set_identity(scope, identity)
        return route

    def _check_headers(self, method: str, path: str, headers: Headers) -> RouteAccess:
        """The route of a request whose headers are valid. Raises `RequestRejected`."""
        for name in _UNIQUE_HEADERS:
            if len(headers.getlist(name)) > 1:
                raise RequestRejected(400, f"repeated header: {name}")
        host = headers.get("host", "")
        if not self._is_valid_host(host):
            raise RequestRejected(
                400, "invalid Host header: use an IP address, localhost or a name of server.hosts"
            )
        if self._routes.is_unknown_page(method, path, headers.get("accept", "")):
            return RouteAccess(method, path, None)  # the page that says so holds no data
        route = self._routes.find(method, path)
        if route.role is None and method in SAFE_METHODS:
            return route
        origin = headers.get("origin", "")
        if origin and origin.partition("://")[2].lower() != host.lower():
            raise RequestRejected(403, "cross-origin request refused")
        has_own_limit = route.has_json_body or route.reads_body
        if not has_own_limit and _has_large_body(headers):
            raise RequestRejected(413, "this route accepts no body")
        return route

    def _is_valid_host(self, host: str) -> bool:
        """Whether the Host header is an IP address or one of our names.

        A page of another site can reach this server through a DNS name of its own (DNS rebinding),
        but not through an address.
        """
        if host.startswith("["):
            name = host[1 : host.find("]")]
        else:
            name = host.partition(":")[0]
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name.lower() in self._hosts
        return True

    async def _identify(self, scope: Scope, route: RouteAccess) -> Identity:
        """Whose request it is. Raises `RequestRejected`.

        While the database is unreachable, sources can post with tokens that were valid lately.
        """
        client = _client_address(scope)
        request = Request(scope)
        credentials = await _BEARER(request)
        cookie = request.cookies.get(session_cookie_name(scope))
        credential = cookie if credentials is None else credentials.credentials
        credential_hash = hashlib.sha256((credential or "").encode()).digest()
        valid_before = self._valid_credentials.get(credential_hash)
        if valid_before is None and self._failures.is_exhausted(client):
            raise RequestRejected(429, _TOO_MANY_REFUSED, _RATE_RETRY)
        try:
            identity = await run_in_threadpool(self._authenticate, credentials, cookie)
        except RequestRejected:
            if route.role != "source" or valid_before is None or not valid_before.is_recent():
                raise
            return valid_before.identity
        if identity is None:
            self._valid_credentials.pop(credential_hash, None)
            self._failures.take(client)
            raise RequestRejected(401, "valid token required: Authorization: Bearer TOKEN")
        self._valid_credentials[credential_hash] = _ValidCredential(identity, time.monotonic())
        return identity

    def _authenticate(
        self, credentials: HTTPAuthorizationCredentials | None, cookie: str | None
    ) -> Identity | None:
        """The identity of a token or else of a session cookie. Uses a database connection."""
        try:
            with self._pool.connection() as connection:
                if credentials is not None:
                    # Headers are decoded as latin-1; not every FastAPI strips the token.
                    token = credentials.credentials.strip().encode("latin-1")
                    return tokens.authenticate(connection, token)
                if cookie is not None:
                    return tokens.find_session(connection, cookie)
        except RequestRejected:
            raise
        except MoiraeError as error:
            raise RequestRejected(503, DATABASE_UNREACHABLE, DATABASE_RETRY) from error
        return None

    def _take_failure(self, scope: Scope) -> None:
        if not self._failures.take(_client_address(scope)):
            raise RequestRejected(429, _TOO_MANY_REFUSED, _RATE_RETRY)

    async def _serve_with_body(
        self, route: RouteAccess, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Receive the whole body, then serve the request. Raises `RequestRejected`."""
        if route.role is None:
            slots, client = self._public_bodies, _client_address(scope)
            max_bytes, timeout = MAX_PUBLIC_BODY_BYTES, PUBLIC_BODY_TIMEOUT
        else:
            slots, client = self._bodies, read_identity(scope).token_id
            max_bytes, timeout = MAX_BODY_BYTES, BODY_TIMEOUT
        _check_json_headers(Headers(scope=scope), max_bytes)
        if not slots.acquire(client):
            raise RequestRejected(503, "too many concurrent requests with a body", _RATE_RETRY)
        try:
            body = await _receive_body(receive, max_bytes, timeout)
        finally:
            slots.release(client)
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return messages.pop() if messages else await receive()

        await self._app(scope, replay, send)


def session_cookie_name(scope: Scope) -> str:
    """The name of the session cookie; over https with a prefix that browsers enforce."""
    return SECURE_SESSION_COOKIE if scope["scheme"] == "https" else SESSION_COOKIE


def host_of_url(url: str) -> str:
    """The host name of a URL."""
    return urlsplit(url).hostname or ""


def _add_headers(scope: Scope, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of a response and those that all responses have."""
    names = {name.lower() for name, _ in headers}
    added = [header for header in _COMMON_HEADERS if header[0] not in names]
    if _CONTENT_POLICY[0] not in names:
        added.append(_CONTENT_POLICY)
    if scope["scheme"] == "https":
        added.append(_TRANSPORT_SECURITY)
    return [*headers, *added]


def _client_address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else ""


def _check_csrf(headers: Headers, csrf_token: str) -> None:
    given = headers.get(CSRF_HEADER, "").encode("latin-1")
    if not hmac.compare_digest(given, csrf_token.encode()):
        raise RequestRejected(403, "CSRF token missing or invalid: send X-CSRF-Token")


def _check_json_headers(headers: Headers, max_bytes: int) -> None:
    length = headers.get("content-length", "0")
    if not length.isdigit() or len(length) > 15 or int(length) > max_bytes:
        raise RequestRejected(413, f"body too large: limit {max_bytes} bytes")
    if read_media_type(headers) != "application/json":
        raise RequestRejected(415, "unsupported Content-Type: use application/json")
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise RequestRejected(415, "unsupported Content-Encoding")


async def _receive_body(receive: Receive, max_bytes: int, timeout: float) -> bytes:
    """The body of a request. `timeout`: in seconds. Raises `RequestRejected`."""
    body = bytearray()
    try:
        async with asyncio.timeout(timeout):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise RequestRejected(400, "the body is truncated")
                body += message.get("body", b"")
                if len(body) > max_bytes:
                    raise RequestRejected(413, f"body too large: limit {max_bytes} bytes")
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        raise RequestRejected(408, f"body not received within {timeout:.0f} s") from None


async def _receive_short_body(scope: Scope, receive: Receive) -> None:
    """Receive the body of a refused request if it is short.

    The connection is closed after a response to a body that has not arrived. If it then arrives,
    the client gets a reset, which may come before it has read the response.
    """
    headers = Headers(scope=scope)
    length = headers.get("content-length", "")
    is_short = length.isdecimal() and len(length) <= _MAX_LENGTH_DIGITS
    if not is_short or "expect" in headers:
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_SHORT_BODY_TIMEOUT):
            while (await receive()).get("more_body"):
                pass


def _has_large_body(headers: Headers) -> bool:
    length = headers.get("content-length", "0")
    return "transfer-encoding" in headers or len(length) > _MAX_LENGTH_DIGITS


__all__ = ["AccessMiddleware", "host_of_url", "read_identity", "session_cookie_name"]
