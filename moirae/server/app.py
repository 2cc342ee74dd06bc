"""HTTP routes of the server."""

from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

import sql
from archiver.errors import ArchiverError
from moirae.config import Settings
from moirae.errors import MoiraeError, RequestRejected
from moirae.server.access import AccessMiddleware, host_of_url
from moirae.server.head_requests import answer_head_requests
from moirae.server.ingest import IngestHandler
from moirae.server.live.event_stream import add_live_route
from moirae.server.pool import ConnectionPool
from moirae.server.readiness import list_readiness_problems
from moirae.server.reload import request_reload
from moirae.server.responses import (
    error_response,
    find_rpc_media_type,
    json_response,
    read_identity,
    require_stream,
)
from moirae.server.route_table import RouteAccess, RouteTable
from moirae.server.routes.action_links import add_action_link_routes
from moirae.server.routes.alertmanager import add_alertmanager_routes
from moirae.server.routes.callbacks import add_callback_routes
from moirae.server.routes.files import add_file_routes
from moirae.server.routes.mcp import add_mcp_route
from moirae.server.routes.metrics import add_metrics_route
from moirae.server.routes.norms import add_norms_route
from moirae.server.routes.openapi import IDEMPOTENCY_KEY, add_openapi_route, describe_api
from moirae.server.routes.operations import OperationRunner, add_operation_routes
from moirae.server.routes.pages import add_page_routes, send_unknown_page
from moirae.server.routes.protocols import add_protocol_routes
from moirae.server.routes.sessions import add_session_routes
from moirae.server.routes.watermarks import add_watermark_route
from moirae.server.state_probe import StateProbe
from moirae.services import problems

_INGEST_DESCRIPTION = (
    "Append rows to a stream with an HTTP source: one JSON object per line, a JSON list, or CSV. "
    "202 means that the batch is durable."
)


def create_application(
    settings: Settings, pool: ConnectionPool, ingest_handler: IngestHandler
) -> AccessMiddleware:
    """The ASGI application of the server."""
    app, routes = _create_routes(settings, pool, ingest_handler)
    hosts = [settings.server.host, *settings.server.hosts, host_of_url(settings.server.public_url)]
    return AccessMiddleware(
        answer_head_requests(app),
        pool,
        hosts,
        RouteTable(routes),
        float(settings.server.requests_per_second),
    )


def build_openapi_document() -> dict[str, Any]:
    """The OpenAPI document of the API; needs no workspace."""
    # The routes are described, not called.
    app, _ = _create_routes(Settings(), cast(ConnectionPool, None), cast(IngestHandler, None))
    return describe_api(app)


def _create_routes(
    settings: Settings, pool: ConnectionPool, ingest_handler: IngestHandler
) -> tuple[FastAPI, list[RouteAccess]]:
    app = FastAPI(title="Moirae", docs_url=None, redoc_url=None, openapi_url=None)
    runner = OperationRunner(settings, pool)
    routes = [
        *_add_service_routes(app, pool, ingest_handler),
        *add_session_routes(app, pool),
        *add_live_route(app, pool),
        *add_file_routes(app, settings, pool, ingest_handler),
        *add_metrics_route(app, pool),
        *add_norms_route(app, pool),
        *add_openapi_route(app),
        *add_operation_routes(app, runner),
        *add_alertmanager_routes(app, settings, pool),
        *add_protocol_routes(app, settings, pool, ingest_handler),
        *add_watermark_route(app, settings, ingest_handler),
        *add_callback_routes(app, settings, pool),
        *add_action_link_routes(app, pool),
        *add_mcp_route(app, settings, pool, runner),
        *add_page_routes(app),
    ]
    _add_error_handlers(app, RouteTable(routes))
    return app, routes


def _add_service_routes(
    app: FastAPI, pool: ConnectionPool, ingest_handler: IngestHandler
) -> list[RouteAccess]:
    """Probes, the reload, and ingest, whose access `RouteTable` knows."""
    state_probe = StateProbe(pool)

    @app.get("/-/healthy", tags=["service"])
    async def healthy() -> Response:
        """Whether the server runs; with the state of the workspace."""
        return json_response({"healthy": True, **await state_probe.read()})

    @app.get("/-/ready", tags=["service"])
    def ready() -> Response:
        """Whether posted rows are archived now."""
        problems = list_readiness_problems(pool, ingest_handler)
        status = 503 if problems else 200
        return json_response({"ready": not problems, "missing": problems}, status)

    @app.post(
        "/api/v1/ingest/{stream}",
        tags=["archive"],
        status_code=202,
        description=_INGEST_DESCRIPTION,
        openapi_extra={
            "x-required-role": "source",
            "parameters": [IDEMPOTENCY_KEY],
            "requestBody": {
                "required": True,
                "content": {
                    media_type: {"schema": {}}
                    for media_type in ("application/x-ndjson", "application/json", "text/csv")
                },
            },
        },
    )
    async def ingest(stream: str, request: Request) -> Response:
        require_stream(request.scope, stream)
        return json_response(await ingest_handler.accept_batch(stream, request), 202)

    @app.post("/-/reload", tags=["service"], openapi_extra={"x-required-role": "admin"})
    def reload_rules(request: Request) -> Response:
        """Have the live process reload the rule files, and wait for the result."""
        problems = request_reload(pool, read_identity(request.scope).name)
        if problems:
            details = {
                "type": "urn:moirae:problem:rule-files",
                "title": "Invalid rule files",
                "status": 422,
                "detail": "rule files rejected; nothing was changed",
                "problems": problems,
            }
            response = json_response(details, 422)
            response.headers["Content-Type"] = "application/problem+json"
            return response
        return json_response({"applied": True})

    return [RouteAccess("POST", "/-/reload", "admin")]


def _add_error_handlers(app: FastAPI, table: RouteTable) -> None:
    """Answer errors with problem details, and a browser that asks for an unknown page with one."""

    def answer(request: Request, error: MoiraeError) -> Response:
        route = table.find(request.method, request.url.path)
        return error_response(error, find_rpc_media_type(route, request.headers))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return answer(request, RequestRejected(400, _describe(error)))

    @app.exception_handler(HTTPException)
    async def failed(request: Request, error: HTTPException) -> Response:
        accept = request.headers.get("accept", "")
        if table.is_unknown_page(request.method, request.url.path, accept):
            return send_unknown_page(request)
        response = answer(request, RequestRejected(error.status_code, str(error.detail)))
        response.headers.update(error.headers or {})
        return response

    @app.exception_handler(MoiraeError)
    async def rejected(request: Request, error: MoiraeError) -> Response:
        return answer(request, error)

    @app.exception_handler(ArchiverError)
    @app.exception_handler(sql.DataError)
    @app.exception_handler(sql.InterfaceError)
    @app.exception_handler(sql.OperationalError)
    async def explained(request: Request, error: Exception) -> Response:
        explanation = problems.explain_error(error)
        assert explanation is not None
        return answer(request, explanation)


def _describe(error: RequestValidationError) -> str:
    """The first invalid argument of a request, and what is wrong with it."""
    details = error.errors()[0]
    location = details["loc"]
    if details["type"] == "json_invalid":
        return f"body: invalid JSON at character {location[-1]}: {details['ctx']['error']}"
    # The first part says where the parameter is; a missing body has no more parts.
    return problems.describe_invalid_argument({**details, "loc": location[1:] or location})
