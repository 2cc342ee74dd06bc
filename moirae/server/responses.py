"""JSON responses of the server, including errors, and who made a request, for what."""

from collections.abc import Mapping
from typing import Any, cast

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Scope

from moirae.errors import MoiraeError, RequestRejected, Unreachable
from moirae.server.protocols.rpc_status import JSON, PROTOBUF, write_status
from moirae.server.route_table import RouteAccess
from moirae.services import problems, to_json
from moirae.services.tokens import Identity

DATABASE_UNREACHABLE = "the database is unreachable"
DATABASE_RETRY = 5  # seconds after which a client may retry
MAX_RESPONSE_BYTES = 32 << 20
_IDENTITY_KEY = "moirae.identity"


def json_response(value: Any, status: int = 200) -> Response:
    """A value as JSON; times are in UTC with `Z`. Raises `RequestRejected` if it is too large."""
    content = to_json(value)
    if len(content) > MAX_RESPONSE_BYTES:
        raise RequestRejected(413, "the response is too large: use a lower limit")
    return Response(content, status, media_type="application/json")


def error_response(error: MoiraeError, rpc_media_type: str | None = None) -> Response:
    """Problem details of an error. Closes the connection, as the request body may be unread.

    `rpc_media_type`: of a `google.rpc.Status` instead, on routes of OTLP.
    """
    details = problems.describe_error(error)
    content, media_type = to_json(details), problems.MEDIA_TYPE
    if rpc_media_type is not None:
        media_type = rpc_media_type
        content = write_status(details["status"], details.get("detail", str(error)), media_type)
    response = Response(content, details["status"], media_type=media_type)
    retry_after = error.retry_after if isinstance(error, RequestRejected) else None
    if isinstance(error, Unreachable):
        retry_after = DATABASE_RETRY
    if retry_after is not None:
        response.headers["Retry-After"] = str(retry_after)
    if details["status"] == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    response.headers["Connection"] = "close"
    return response


def read_media_type(headers: Mapping[str, str]) -> str:
    """The Content-Type of a request in lower case, without its parameters."""
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def find_rpc_media_type(route: RouteAccess, headers: Headers) -> str | None:
    """How the errors of a request are written; None: as problem details."""
    if not route.has_rpc_errors:
        return None
    return JSON if read_media_type(headers) == JSON else PROTOBUF


def set_identity(scope: Scope, identity: Identity) -> None:
    """Store who makes a request."""
    scope[_IDENTITY_KEY] = identity


def has_identity(scope: Mapping[str, Any]) -> bool:
    """Whether a token or a session says who makes a request."""
    return _IDENTITY_KEY in scope


def read_identity(scope: Scope) -> Identity:
    """Who makes a request that needs a token."""
    return cast(Identity, scope[_IDENTITY_KEY])


def require_stream(scope: Scope, stream: str) -> None:
    """Raise `RequestRejected` if the token of a request may not post for a stream."""
    allowed = read_identity(scope).stream
    if allowed is not None and allowed != stream:
        raise RequestRejected(403, f"permission denied: this token posts for stream {allowed} only")
