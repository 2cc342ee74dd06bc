"""The server's routes. Each is short: what it does stands in a module of its own."""

from collections.abc import Callable
from typing import Any

import orjson
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from psycopg.rows import dict_row
from starlette.exceptions import HTTPException
from starlette.responses import Response

import sql
from moirae.config import Settings
from moirae.deployments import RuleRegistry
from moirae.errors import MoiraeError, RequestRejected
from moirae.runtime import list_processes
from moirae.server.access import AccessMiddleware
from moirae.server.ingest import IngestHandler
from moirae.server.pool import ConnectionPool
from moirae.server.reload import request_reload
from moirae.server.responses import error_response, json_response

# Rows of one answer, and bytes after which it ends early and says so.
MAX_ROWS, _MAX_RESPONSE_BYTES = 1_000, 4 << 20


def create_application(
    settings: Settings, pool: ConnectionPool, ingest_handler: IngestHandler
) -> AccessMiddleware:
    """The application that uvicorn serves."""
    app = FastAPI(title="Moirae", docs_url=None, redoc_url=None, openapi_url=None)
    _add_probe_routes(app, pool, ingest_handler)
    _add_read_routes(app, pool)

    @app.post("/api/v1/ingest/{stream}")
    async def ingest(stream: str, request: Request) -> Response:
        return json_response(await ingest_handler.accept_batch(stream, request), 202)

    @app.post("/-/reload")
    def reload_rules() -> Response:
        problems = request_reload(pool)
        if problems:
            return json_response({"error": "nothing was changed", "problems": problems}, 422)
        return json_response({"applied": True})

    _add_error_handlers(app)
    return AccessMiddleware(app, pool, [settings.server.host, *settings.server.hosts])


def _add_probe_routes(app: FastAPI, connections: ConnectionPool, push: IngestHandler) -> None:
    @app.get("/-/healthy")
    async def healthy() -> Response:
        return json_response({"healthy": True})

    @app.get("/-/ready")
    def ready() -> Response:
        missing = []
        try:
            with connections.connection() as connection:
                if not any(p["role"] == "live" and p["alive"] for p in list_processes(connection)):
                    missing.append("the live process does not run: what is posted waits")
        except RequestRejected:
            raise
        except MoiraeError:
            missing.append("the database is away")
        if push.disk_is_full():
            missing.append("the disk is full but for its reserve")
        return json_response({"ready": not missing, "missing": missing}, 503 if missing else 200)


def _add_read_routes(app: FastAPI, connections: ConnectionPool) -> None:
    @app.get("/api/v1/alerts")
    def alerts(
        limit: int = Query(100, ge=1, le=MAX_ROWS), rule: str | None = Query(None, max_length=200)
    ) -> Response:
        values = {
            "rule": _replace_nul(rule),
            "states": None,
            "id": None,
            "everything": False,
            "limit": limit,
        }
        with (
            connections.connection() as connection,
            connection.cursor(row_factory=dict_row) as cursor,
        ):
            rows = cursor.execute(sql.load("alerts")["alerts"], values).fetchall()
        return _bounded_response("alerts", rows)

    @app.get("/api/v1/rules")
    def rules() -> Response:
        with connections.connection() as connection:
            running = {d.rule: d for d in sql.DeploymentGateway(connection).list_active()}
            found = [
                _summarize_rule(d.name, d.version, running.get(d.name))
                for d in RuleRegistry(connection).desired_rules()
            ]
        return _bounded_response("rules", found)

    @app.get("/api/v1/rules/{name:path}")
    def rule(name: str) -> Response:
        with connections.connection() as connection:
            found = [
                d
                for d in RuleRegistry(connection).desired_rules()
                if name in (d.name, d.name.partition("/")[2])
            ]
        if len(found) != 1:
            raise RequestRejected(
                404,
                "no rule of that name" if not found else "several groups have a rule of that name",
            )
        stored = found[0].to_json()
        return json_response(
            {
                "name": found[0].name,
                "version": found[0].version,
                "group": stored.pop("rule"),
                **stored,
            }
        )


def _summarize_rule(name: str, version: str, deployed: Any) -> dict[str, Any]:
    known = deployed is not None and deployed.version == version
    return {
        "name": name,
        "version": version,
        "state": deployed.state if known else "not started yet",
    }


def _replace_nul(value: str | None) -> str | None:
    """As PostgreSQL takes it: no text there has a NUL."""
    return None if value is None else value.replace("\x00", "\u2400")


def _bounded_response(name: str, rows: list[dict[str, Any]]) -> Response:
    """Rows as JSON, as many as fit one answer."""
    held: list[orjson.Fragment] = []
    size = 0
    for row in rows:
        text = orjson.dumps(row, default=str, option=orjson.OPT_UTC_Z)
        size += len(text)
        if size > _MAX_RESPONSE_BYTES:
            break
        held.append(orjson.Fragment(text))
    return json_response({name: held, "truncated": len(held) < len(rows)})


def _add_error_handlers(app: FastAPI) -> None:
    async def refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestRejected)
        return error_response(error)

    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        return error_response(
            RequestRejected(400, f"{'.'.join(map(str, first['loc'][1:]))}: {first['msg']}")
        )

    async def missing(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return error_response(RequestRejected(error.status_code, str(error.detail)))

    async def away(_: Request, error: Exception) -> Response:
        return error_response(RequestRejected(503, "the database is away", 5))

    handlers: list[tuple[type[Exception], Callable[..., Any]]] = [
        (RequestRejected, refused),
        (RequestValidationError, invalid),
        (HTTPException, missing),
        (MoiraeError, away),
    ]
    for kind, handler in handlers:
        app.add_exception_handler(kind, handler)
