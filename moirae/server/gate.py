"""What stands before every route: who asks, from where, for what. What is not allowed here reaches no route."""

import ipaddress
from collections.abc import Collection

import structlog
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from moirae.errors import MoiraeError
from moirae.server import tokens
from moirae.server.answers import Refused, refusal
from moirae.server.connections import Connections
from moirae.server.tokens import Role

_LOG = structlog.get_logger()

# Anybody may ask whether the server lives.
_OPEN = frozenset({"/-/healthy", "/-/ready"})
# Where rows are posted to. Nothing else takes a body; one of so many digits of bytes is let be.
_POSTS = "/api/v1/ingest/"
_DIGITS = 4
_SAFE = frozenset({"GET", "HEAD"})
_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
)


class Gate:
    """Refuses hosts it is not known by, other sites' scripts, and whoever has no token for what is asked."""

    def __init__(self, app: ASGIApp, connections: Connections, hosts: Collection[str]) -> None:
        """`hosts`: names beside `localhost` and addresses by which the server may be asked."""
        self._app = app
        self._connections = connections
        self._hosts = frozenset(host.lower() for host in hosts) | {"localhost"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def answered(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
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
            await self._admit(scope)
        except Refused as refused:
            await refusal(refused)(scope, receive, answered)
            return
        await self._app(scope, receive, answered)

    async def _admit(self, scope: Scope) -> None:
        headers: dict[bytes, bytes] = {}
        for name, value in scope["headers"]:
            if name in (b"host", b"authorization", b"origin") and name in headers:
                raise Refused(400, f"more than one {name.decode()} header")
            headers[name] = value
        host = headers.get(b"host", b"").decode("latin-1")
        if not self._known(host):
            raise Refused(400, "this server is not known by that Host")
        if scope["path"] in _OPEN and scope["method"] in _SAFE:
            return
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and origin.partition("://")[2].lower() != host.lower():
            raise Refused(403, "not from another site")
        if not scope["path"].startswith(_POSTS) and (
            b"transfer-encoding" in headers or len(headers.get(b"content-length", b"0")) > _DIGITS
        ):
            raise Refused(413, "this takes no body")
        await run_in_threadpool(self._identify, headers.get(b"authorization", b""), _needed(scope))

    def _known(self, host: str) -> bool:
        """Another site's script can reach this server by a name of its own, but not by an address."""
        name = host[1 : host.find("]")] if host.startswith("[") else host.partition(":")[0]
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name.lower() in self._hosts
        return True

    def _identify(self, authorization: bytes, needed: Role) -> None:
        scheme, _, presented = authorization.partition(b" ")
        try:
            with self._connections.lend() as connection:
                role = tokens.role_of(connection, presented.strip()) if scheme.lower() == b"bearer" else None
        except MoiraeError as error:
            raise Refused(503, "the database is away", 5) from error
        if role is None:
            raise Refused(401, "a token is needed: Authorization: Bearer …")
        if not tokens.allows(role, needed):
            raise Refused(403, f"this needs the role {needed}")


def _needed(scope: Scope) -> Role:
    """What changes anything needs an admin, but for posting rows."""
    if scope["method"] in _SAFE:
        return "viewer"
    return "operator" if scope["path"].startswith(_POSTS) else "admin"
