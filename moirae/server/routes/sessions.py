"""Browser sessions: a login page exchanges a token, or a one-time code, for a cookie."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import Body, FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

import sql
from moirae.errors import NotFound, RequestRejected
from moirae.server.access import session_cookie_name
from moirae.server.limits import RateLimiter
from moirae.server.pool import ConnectionPool
from moirae.server.responses import json_response, read_identity
from moirae.server.route_table import RouteAccess
from moirae.server.routes.pages import make_file_route
from moirae.services import API_PREFIX, Role, tokens
from moirae.services.tokens import SESSION_DURATION
from sql.access import AuditGateway

_SESSIONS = f"{API_PREFIX}/sessions"
_CURRENT = f"{_SESSIONS}/current"
_LOGIN = "/login"
# Logins with one token, each of which adds a line to the audit log.
_LOGINS_PER_SECOND = 1 / 6
_LOGIN_BURST = 30
_LOGIN_RETRY = 6  # seconds after which a client may retry
_STATIC = {
    "/static/login.js": ("login.js", "text/javascript; charset=utf-8"),
    "/static/login.css": ("login.css", "text/css; charset=utf-8"),
}

ROUTES = [
    RouteAccess("POST", _SESSIONS, None, has_json_body=True),
    RouteAccess("GET", _CURRENT, "viewer"),
    RouteAccess("DELETE", _CURRENT, "viewer"),
    RouteAccess("GET", _LOGIN, None),
    *(RouteAccess("GET", path, None) for path in _STATIC),
]


class Login(BaseModel):
    """A token or a one-time code: exactly one of them."""

    model_config = ConfigDict(extra="forbid")

    token: str | None = Field(None, max_length=200, description="An API token.")
    code: str | None = Field(None, max_length=200, description="A one-time code.")


class Session(BaseModel):
    """A session. `csrf_token`: each change repeats it in the header X-CSRF-Token."""

    name: str
    role: Role
    csrf_token: str | None
    expires_at: datetime | None


def add_session_routes(app: FastAPI, pool: ConnectionPool) -> list[RouteAccess]:
    """Add the routes of sessions and of the login page."""
    logins = RateLimiter(_LOGINS_PER_SECOND, _LOGIN_BURST)

    @app.post(_SESSIONS, status_code=201, response_model=Session, tags=["sessions"])
    def log_in(request: Request, login: Annotated[Login, Body()]) -> Response:
        """Exchange a token or a one-time code for a session cookie. Recorded in the audit log."""
        with pool.connection() as connection:
            if (login.token is None) == (login.code is None):
                raise RequestRejected(400, "give either a token or a code")
            token_id: str | None = None
            if login.token is not None:
                identity = tokens.authenticate(connection, login.token.strip().encode())
                token_id = None if identity is None else identity.token_id
                if token_id is not None and not logins.take(token_id):
                    raise RequestRejected(429, "too many logins with this token", _LOGIN_RETRY)
            elif login.code is not None:
                token_id = tokens.take_login_code(connection, login.code)
            if token_id is None:
                raise RequestRejected(401, "the token or code is not valid")
            method = "code" if login.token is None else "token"
            cookie, session = _open_session(connection, token_id, method)
        response = _describe(session, 201)
        response.set_cookie(
            session_cookie_name(request.scope),
            cookie,
            max_age=int(SESSION_DURATION),
            **_cookie_attributes(request),
        )
        return response

    @app.get(_CURRENT, response_model=Session, tags=["sessions"])
    def show_session(request: Request) -> Response:
        """Show whose token or session the request has, and the session's CSRF token."""
        return _describe(read_identity(request.scope))

    @app.delete(_CURRENT, status_code=204, tags=["sessions"])
    def log_out(request: Request) -> Response:
        """End the session of the request. Recorded in the audit log."""
        name = session_cookie_name(request.scope)
        cookie = request.cookies.get(name)
        if cookie is not None:
            author = read_identity(request.scope).name
            with pool.connection() as connection, connection.transaction():
                tokens.end_session(connection, cookie)
                AuditGateway(connection).insert(author, "api", "sessions.log_out", {})
        response = Response(status_code=204)
        # Without the attributes with which it was set, browsers keep the cookie.
        response.delete_cookie(name, **_cookie_attributes(request))
        return response

    login_page = make_file_route("login.html", "text/html; charset=utf-8")
    app.add_api_route(_LOGIN, login_page, include_in_schema=False)
    for path, (file_name, media_type) in _STATIC.items():
        app.add_api_route(path, make_file_route(file_name, media_type), include_in_schema=False)
    return ROUTES


def _open_session(
    connection: sql.Connection, token_id: str, method: str
) -> tuple[str, tokens.Identity]:
    """The cookie and the identity of a new session. Raises `RequestRejected`.

    `method`: by which the user has logged in: `token` or `code`.
    """
    try:
        with connection.transaction():
            cookie = tokens.open_session(connection, token_id)
            session = tokens.find_session(connection, cookie)
            if session is None:
                raise NotFound("the token is revoked")
            if session.role == "source":
                raise RequestRejected(403, "permission denied: this token only posts data")
            arguments = {"method": method}
            AuditGateway(connection).insert(session.name, "api", "sessions.log_in", arguments)
    except NotFound as error:
        raise RequestRejected(401, "the token or code is not valid") from error
    return cookie, session


def _describe(identity: tokens.Identity, status: int = 200) -> Response:
    session = Session(
        name=identity.name,
        role=identity.role,
        csrf_token=identity.csrf_token,
        expires_at=identity.expires_at,
    )
    return json_response(session.model_dump(), status)


def _cookie_attributes(request: Request) -> dict[str, Any]:
    return {
        "path": "/",
        "secure": request.scope["scheme"] == "https",
        "httponly": True,
        "samesite": "strict",
    }
