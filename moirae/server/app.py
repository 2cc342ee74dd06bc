"""HTTP routes of the server."""

from typing import Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

import sql
from moirae.config import Settings
from moirae.deployments import RuleRegistry
from moirae.errors import MoiraeError, RequestRejected
from moirae.rules import Definition
from moirae.server.access import AccessMiddleware
from moirae.server.ingest import IngestHandler
from moirae.server.pool import ConnectionPool
from moirae.server.readiness import list_readiness_problems
from moirae.server.reload import request_reload
from moirae.server.responses import (
    DATABASE_RETRY,
    DATABASE_UNREACHABLE,
    bounded_response,
    error_response,
    json_response,
)

MAX_ROWS = 1_000  # of a response
_DEFAULT_ROWS = 100


def create_application(
    settings: Settings, pool: ConnectionPool, ingest_handler: IngestHandler
) -> AccessMiddleware:
    """The ASGI application of the server."""
    app = FastAPI(title="Moirae", docs_url=None, redoc_url=None, openapi_url=None)
    _add_probe_routes(app, pool, ingest_handler)
    _add_alert_routes(app, pool)
    _add_rule_routes(app, pool)

    @app.post("/api/v1/ingest/{stream}")
    async def ingest(stream: str, request: Request) -> Response:
        return json_response(await ingest_handler.accept_batch(stream, request), 202)

    @app.post("/-/reload")
    def reload_rules() -> Response:
        problems = request_reload(pool)
        if problems:
            return json_response(
                {"error": "rule files rejected; nothing was changed", "problems": problems}, 422
            )
        return json_response({"applied": True})

    _add_error_handlers(app)
    return AccessMiddleware(app, pool, [settings.server.host, *settings.server.hosts])


def _add_probe_routes(app: FastAPI, pool: ConnectionPool, ingest_handler: IngestHandler) -> None:
    @app.get("/-/healthy")
    async def healthy() -> Response:
        return json_response({"healthy": True})

    @app.get("/-/ready")
    def ready() -> Response:
        problems = list_readiness_problems(pool, ingest_handler)
        status = 503 if problems else 200
        return json_response({"ready": not problems, "missing": problems}, status)


def _add_alert_routes(app: FastAPI, pool: ConnectionPool) -> None:
    @app.get("/api/v1/alerts")
    def alerts(
        limit: int = Query(_DEFAULT_ROWS, ge=1, le=MAX_ROWS),
        rule: str | None = Query(None, max_length=200),
    ) -> Response:
        if rule is not None:
            rule = sql.replace_nul(rule)
        with pool.connection() as connection:
            rows = sql.AlertGateway(connection).list_newest(rule=rule, limit=limit)
        return bounded_response("alerts", rows)


def _add_rule_routes(app: FastAPI, pool: ConnectionPool) -> None:
    @app.get("/api/v1/rules")
    def rules() -> Response:
        with pool.connection() as connection:
            rows = _list_rules(connection)
        return bounded_response("rules", rows)

    @app.get("/api/v1/rules/{name:path}")
    def rule(name: str) -> Response:
        with pool.connection() as connection:
            definition = _find_rule(connection, name)
        return json_response(_describe_rule(definition))


def _list_rules(connection: sql.Connection) -> list[dict[str, Any]]:
    """Name, version and state of the applied rules."""
    deployments = {row.rule: row for row in sql.DeploymentGateway(connection).list_active()}
    rows = []
    for definition in RuleRegistry(connection).desired_rules():
        state = "not started yet"
        deployment = deployments.get(definition.name)
        if deployment is not None and deployment.version == definition.version:
            state = deployment.state
        rows.append({"name": definition.name, "version": definition.version, "state": state})
    return rows


def _find_rule(connection: sql.Connection, name: str) -> Definition:
    """The applied rule with this name, `group/rule` or only `rule`. Raises `RequestRejected`."""
    definitions = []
    for definition in RuleRegistry(connection).desired_rules():
        rule_name = definition.name.partition("/")[2]
        if name in (definition.name, rule_name):
            definitions.append(definition)
    if not definitions:
        raise RequestRejected(404, "no applied rule of this name")
    if len(definitions) > 1:
        raise RequestRejected(404, "ambiguous: several groups have this rule, use GROUP/RULE")
    return definitions[0]


def _describe_rule(definition: Definition) -> dict[str, Any]:
    stored = definition.to_json()
    return {
        "name": definition.name,
        "version": definition.version,
        "group": stored.pop("rule"),
        **stored,
    }


def _add_error_handlers(app: FastAPI) -> None:
    """Answer errors as JSON, with the reason in `error`."""

    @app.exception_handler(RequestRejected)
    async def rejected(_: Request, error: RequestRejected) -> Response:
        return error_response(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        details = error.errors()[0]
        parameter = ".".join(map(str, details["loc"][1:]))
        return error_response(RequestRejected(400, f"{parameter}: {details['msg']}"))

    @app.exception_handler(HTTPException)
    async def failed(_: Request, error: HTTPException) -> Response:
        return error_response(RequestRejected(error.status_code, str(error.detail)))

    @app.exception_handler(MoiraeError)
    async def unreachable(_: Request, error: MoiraeError) -> Response:
        return error_response(RequestRejected(503, DATABASE_UNREACHABLE, DATABASE_RETRY))
