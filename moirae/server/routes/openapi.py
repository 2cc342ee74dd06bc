"""The OpenAPI document of the API."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.responses import Response

from moirae import __version__
from moirae.server.responses import json_response
from moirae.server.route_table import SAFE_METHODS, RouteAccess
from moirae.services import API_PREFIX, problems

OPENAPI_PATH = f"{API_PREFIX}/openapi.json"
_DESCRIPTION = (
    "History-enhanced monitoring. Every route but the probes and the login needs a token: "
    "`Authorization: Bearer TOKEN`, or the cookie of a session, whose changes repeat its CSRF token "
    "in `X-CSRF-Token`. Errors are problem details (RFC 9457)."
)
_PROBLEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "title": "ProblemDetails",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "problems": {"type": "array", "items": {"type": "object"}},
    },
}
IDEMPOTENCY_KEY: dict[str, Any] = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Makes the change repeatable: the same key gets the first response again.",
    "schema": {"type": "string", "pattern": "^[!-~]{1,128}$"},
}
_CSRF_TOKEN: dict[str, Any] = {
    "name": "X-CSRF-Token",
    "in": "header",
    "required": False,
    "description": "The CSRF token of the session; required with its cookie, else ignored.",
    "schema": {"type": "string", "pattern": "^[!-~]*$"},
}
_PUBLIC_PATHS = ("/-/healthy", "/-/ready", f"{API_PREFIX}/sessions")


def add_openapi_route(app: FastAPI) -> list[RouteAccess]:
    """Add the route of the document, which is built at the first request."""

    @app.get(OPENAPI_PATH, include_in_schema=False)
    def openapi() -> Response:
        return json_response(describe_api(app))

    return [RouteAccess("GET", OPENAPI_PATH, "viewer")]


def describe_api(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document of an application."""
    if app.openapi_schema is None:
        app.openapi_schema = _build(app)
    return app.openapi_schema


def _build(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title="Moirae",
        version=__version__,
        description=_DESCRIPTION,
        routes=app.routes,
    )
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas["ProblemDetails"] = _PROBLEM_SCHEMA
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    components["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer"},
        "session": {"type": "apiKey", "in": "cookie", "name": "moirae_session"},
    }
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            operation["responses"].pop("422", None)
            operation["responses"]["default"] = {
                "description": "A problem",
                "content": {
                    problems.MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/ProblemDetails"}}
                },
            }
            is_public = path in _PUBLIC_PATHS
            operation["security"] = [] if is_public else [{"token": []}, {"session": []}]
            if not is_public and method.upper() not in SAFE_METHODS:
                operation.setdefault("parameters", []).append(_CSRF_TOKEN)
    return document
