"""What stands before every route: who asks, from where, for what. What is not allowed here reaches
no route.
"""

import ipaddress
from collections.abc import Collection

import structlog
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from moirae.errors import MoiraeError, RequestRejected
from moirae.server import tokens
from moirae.server.pool import ConnectionPool
from moirae.server.responses import error_response
from moirae.server.tokens import TokenRole

_LOG = structlog.get_logger()

# Anybody may ask whether the server lives.
_PUBLIC_PATHS = frozenset({"/-/healthy", "/-/ready"})
# Where rows are posted to. Nothing else takes a body; one of so many digits of bytes is let be.
_INGEST_PREFIX = "/api/v1/ingest/"
_MAX_LENGTH_DIGITS = 4
_SAFE_METHODS = frozenset({"GET", "HEAD"})
_SECURITY_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
)


class AccessMiddleware:
    """Refuses hosts it is not known by, other sites' scripts, and whoever has no token for what is
    asked.
    """

    def __init__(self, app: ASGIApp, pool: ConnectionPool, hosts: Collection[str]) -> None:
        """`hosts`: names beside `localhost` and addresses by which the server may be asked."""
        self._app = app
        self._pool = pool
        self._hosts = frozenset(host.lower() for host in hosts) | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def answered(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_SECURITY_HEADERS]
                if message["status"] >= 400:
                    _LOG.info(
                        "request refused",
                        action="request_refused",
                        method=scope["method"],
                        path=scope["path"][:200],
                        status=message["status"],
                    )
            await send(message)

        try:
            await self._authorize(scope)
        except RequestRejected as refused:
            await error_response(refused)(scope, receive, answered)
            return
        await self._app(scope, receive, answered)

    async def _authorize(self, scope: Scope) -> None:
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name in (b"host", b"authorization", b"origin") and name in headers:
                raise RequestRejected(400, f"more than one {name.decode()} header")
            headers[name] = value
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._is_known_host(host):
            raise RequestRejected(400, "this server is not known by that Host")
        if scope["path"] in _PUBLIC_PATHS and scope["method"] in _SAFE_METHODS:
            return
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and origin.partition("://")[2].lower() != host.lower():
            raise RequestRejected(403, "not from another site")
        if not scope["path"].startswith(_INGEST_PREFIX) and (
            b"transfer-encoding" in headers
            or len(headers.get(b"content-length", b"0")) > _MAX_LENGTH_DIGITS
        ):
            raise RequestRejected(413, "this takes no body")
        await run_in_threadpool(
            self._check_token, headers.get(b"authorization", b""), _required_role(scope)
        )

    def _is_known_host(self, host: str) -> bool:
        """Another site's script can reach this server by a name of its own, but not by an address."""
        name = host[1 : host.find("]")] if host.startswith("[") else host.partition(":")[0]
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name.lower() in self._hosts
        return True

    def _check_token(self, authorization: bytes, needed: TokenRole) -> None:
        scheme, _, presented = authorization.partition(b" ")
        try:
            with self._pool.connection() as connection:
                role = (
                    tokens.authenticate(connection, presented.strip())
                    if scheme.lower() == b"bearer"
                    else None
                )
        except RequestRejected:
            raise
        except MoiraeError as error:
            raise RequestRejected(503, "the database is away", 5) from error
        if role is None:
            raise RequestRejected(401, "a token is needed: Authorization: Bearer …")
        if not tokens.role_allows(role, needed):
            raise RequestRejected(403, f"this needs the role {needed}")


def _required_role(scope: Scope) -> TokenRole:
    """What changes anything needs an admin, but for posting rows."""
    if scope["method"] in _SAFE_METHODS:
        return "viewer"
    return "operator" if scope["path"].startswith(_INGEST_PREFIX) else "admin"
