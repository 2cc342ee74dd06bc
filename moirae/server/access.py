"""Access control in front of all routes: Host and Origin headers, request bodies, tokens.

It is not a dependency of routes: a request without a token must not learn which routes exist. Hosts
are not checked by Starlette's `TrustedHostMiddleware`: it takes a fixed list; here every IP address
is valid.
"""

import ipaddress
from collections.abc import Collection

import structlog
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from moirae.errors import MoiraeError, RequestRejected
from moirae.server import tokens
from moirae.server.pool import ConnectionPool
from moirae.server.responses import DATABASE_RETRY, DATABASE_UNREACHABLE, error_response
from moirae.server.tokens import TokenRole

_LOG = structlog.get_logger()

_PUBLIC_PATHS = frozenset({"/-/healthy", "/-/ready"})
_INGEST_PREFIX = "/api/v1/ingest/"
# Only ingest requests have a body. Elsewhere a Content-Length of up to four digits is tolerated:
# some clients send a small body with every POST.
_MAX_LENGTH_DIGITS = 4
_SAFE_METHODS = frozenset({"GET", "HEAD"})
_UNIQUE_HEADERS = ("host", "authorization", "origin")
_SECURITY_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
)
_MAX_LOGGED_PATH = 200  # characters
_BEARER = HTTPBearer(auto_error=False)


class AccessMiddleware:
    """ASGI middleware that rejects unauthorized requests and adds security headers."""

    def __init__(self, app: ASGIApp, pool: ConnectionPool, hosts: Collection[str]) -> None:
        """`hosts`: names accepted in the Host header, besides `localhost` and IP addresses."""
        self._app = app
        self._pool = pool
        self._hosts = {host.lower() for host in hosts} | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request (ASGI)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_SECURITY_HEADERS]
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
            await self._authorize(scope)
        except RequestRejected as rejection:
            await error_response(rejection)(scope, receive, send_with_headers)
            return
        await self._app(scope, receive, send_with_headers)

    async def _authorize(self, scope: Scope) -> None:
        """Raise `RequestRejected` unless the request is allowed."""
        path, method = scope["path"], scope["method"]
        headers = Headers(scope=scope)
        for name in _UNIQUE_HEADERS:
            if len(headers.getlist(name)) > 1:
                raise RequestRejected(400, f"repeated header: {name}")
        host = headers.get("host", "")
        if not self._is_valid_host(host):
            raise RequestRejected(
                400, "invalid Host header: use an IP address, localhost or a name of server.hosts"
            )
        if path in _PUBLIC_PATHS and method in _SAFE_METHODS:
            return
        origin = headers.get("origin", "")
        if origin and origin.partition("://")[2].lower() != host.lower():
            raise RequestRejected(403, "cross-origin request refused")
        if not path.startswith(_INGEST_PREFIX) and _has_large_body(headers):
            raise RequestRejected(413, "this route accepts no body")
        credentials = await _BEARER(Request(scope))
        await run_in_threadpool(self._check_token, credentials, _required_role(path, method))

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

    def _check_token(
        self, credentials: HTTPAuthorizationCredentials | None, required_role: TokenRole
    ) -> None:
        """Raise `RequestRejected` unless the token has the role. Uses a database connection."""
        role = None
        try:
            with self._pool.connection() as connection:
                if credentials is not None:
                    # Headers are decoded as latin-1; not every FastAPI strips the token.
                    token = credentials.credentials.strip().encode("latin-1")
                    role = tokens.authenticate(connection, token)
        except RequestRejected:
            raise
        except MoiraeError as error:
            raise RequestRejected(503, DATABASE_UNREACHABLE, DATABASE_RETRY) from error
        if role is None:
            raise RequestRejected(401, "valid token required: Authorization: Bearer TOKEN")
        if not tokens.role_allows(role, required_role):
            raise RequestRejected(403, f"permission denied: role {required_role} required")


def _has_large_body(headers: Headers) -> bool:
    length = headers.get("content-length", "0")
    return "transfer-encoding" in headers or len(length) > _MAX_LENGTH_DIGITS


def _required_role(path: str, method: str) -> TokenRole:
    """Reading needs a viewer, posting rows an operator, every other change an admin."""
    if method in _SAFE_METHODS:
        return "viewer"
    if path.startswith(_INGEST_PREFIX):
        return "operator"
    return "admin"
