"""The page of links in messages: it shows what a link does, and acts by POST only.

No token is needed: the code of the link is the permission. It is in the fragment of the address,
which browsers do not send; the page sends it in a body.
"""

from collections.abc import Callable
from typing import Annotated

from fastapi import Body, FastAPI, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

import sql
from moirae.errors import RequestRejected
from moirae.notify.inbound import ACTION_PAGE
from moirae.server.limits import RateLimiter
from moirae.server.pool import ConnectionPool
from moirae.server.responses import json_response
from moirae.server.route_table import RouteAccess
from moirae.server.routes.pages import make_file_route
from moirae.services import API_PREFIX, action_links

_LINKS = f"{API_PREFIX}/action-links"
# Requests of one address.
_REQUESTS_PER_SECOND = 2.0
_BURST = 30
_RETRY = 1  # seconds after which a client may retry
_STATIC = {
    ACTION_PAGE: ("act.html", "text/html; charset=utf-8"),
    "/static/act.js": ("act.js", "text/javascript; charset=utf-8"),
}

ROUTES = [
    RouteAccess("POST", f"{_LINKS}/read", None, has_json_body=True),
    RouteAccess("POST", f"{_LINKS}/use", None, has_json_body=True),
    *(RouteAccess("GET", path, None) for path in _STATIC),
]


class LinkCode(BaseModel):
    """The code of a link."""

    model_config = ConfigDict(extra="forbid")

    code: str = Field(max_length=200)


def add_action_link_routes(app: FastAPI, pool: ConnectionPool) -> list[RouteAccess]:
    """Add the page and what it calls."""
    limiter = RateLimiter(_REQUESTS_PER_SECOND, _BURST)

    def call(
        request: Request,
        link: LinkCode,
        act: Callable[[sql.Connection, str], action_links.LinkDescription],
    ) -> Response:
        client = request.client.host if request.client else ""
        if not limiter.take(client):
            raise RequestRejected(429, "too many requests", _RETRY)
        with pool.connection() as connection:
            return json_response(act(connection, link.code))

    @app.post(f"{_LINKS}/read", include_in_schema=False)
    def read_link(request: Request, link: Annotated[LinkCode, Body()]) -> Response:
        return call(request, link, action_links.describe_link)

    @app.post(f"{_LINKS}/use", include_in_schema=False)
    def use_link(request: Request, link: Annotated[LinkCode, Body()]) -> Response:
        return call(request, link, action_links.use_link)

    for path, (name, media_type) in _STATIC.items():
        app.add_api_route(path, make_file_route(name, media_type), include_in_schema=False)
    return ROUTES
