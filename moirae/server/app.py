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
from moirae.deployments.registry import Registry
from moirae.errors import MoiraeError
from moirae.process import processes
from moirae.server.answers import Refused, answer, refusal
from moirae.server.connections import Connections
from moirae.server.gate import Gate
from moirae.server.push import Push
from moirae.server.reload import reload
from moirae.settings import Settings

# Rows of one answer, and bytes after which it ends early and says so.
MOST_ROWS, _MOST_BYTES = 1_000, 4 << 20


def application(settings: Settings, connections: Connections, push: Push) -> Gate:
    """The application that uvicorn serves."""
    app = FastAPI(title="Moirae", docs_url=None, redoc_url=None, openapi_url=None)
    _add_probes(app, connections, push)
    _add_reads(app, connections)

    @app.post("/api/v1/ingest/{stream}")
    async def ingest(stream: str, request: Request) -> Response:
        return answer(await push.take(stream, request), 202)

    @app.post("/-/reload")
    def reload_rules() -> Response:
        problems = reload(connections)
        if problems:
            return answer({"error": "nothing was changed", "problems": problems}, 422)
        return answer({"applied": True})

    _add_errors(app)
    return Gate(app, connections, [settings.server.host, *settings.server.hosts])


def _add_probes(app: FastAPI, connections: Connections, push: Push) -> None:
    @app.get("/-/healthy")
    async def healthy() -> Response:
        return answer({"healthy": True})

    @app.get("/-/ready")
    def ready() -> Response:
        missing = []
        try:
            with connections.lend() as connection:
                if not any(p["role"] == "live" and p["alive"] for p in processes(connection)):
                    missing.append("the live process does not run: what is posted waits")
        except MoiraeError:
            missing.append("the database is away")
        if push.disk_is_full():
            missing.append("the disk is full but for its reserve")
        return answer({"ready": not missing, "missing": missing}, 503 if missing else 200)


def _add_reads(app: FastAPI, connections: Connections) -> None:
    @app.get("/api/v1/alerts")
    def alerts(limit: int = Query(100, ge=1, le=MOST_ROWS), rule: str | None = Query(None, max_length=200)) -> Response:
        values = {"rule": _text(rule), "states": None, "id": None, "everything": False, "limit": limit}
        with connections.lend() as connection, connection.cursor(row_factory=dict_row) as cursor:
            rows = cursor.execute(sql.load("alerts")["alerts"], values).fetchall()
        return _bounded("alerts", rows)

    @app.get("/api/v1/rules")
    def rules() -> Response:
        with connections.lend() as connection:
            registry = Registry(connection)
            running = {d.rule: d for d in registry.deployments()}
            found = [_summary(d.name, d.version, running.get(d.name)) for d in registry.desired()]
        return _bounded("rules", found)

    @app.get("/api/v1/rules/{name:path}")
    def rule(name: str) -> Response:
        with connections.lend() as connection:
            found = [d for d in Registry(connection).desired() if name in (d.name, d.name.partition("/")[2])]
        if len(found) != 1:
            raise Refused(404, "no rule of that name" if not found else "several groups have a rule of that name")
        stored = found[0].to_json()
        return answer({"name": found[0].name, "version": found[0].version, "group": stored.pop("rule"), **stored})


def _summary(name: str, version: str, deployed: Any) -> dict[str, Any]:
    known = deployed is not None and deployed.version == version
    return {"name": name, "version": version, "state": deployed.state if known else "not started yet"}


def _text(value: str | None) -> str | None:
    """As PostgreSQL takes it: no text there has a NUL."""
    return None if value is None else value.replace("\x00", "\u2400")


def _bounded(name: str, rows: list[dict[str, Any]]) -> Response:
    """Rows as JSON, as many as fit one answer."""
    held: list[orjson.Fragment] = []
    size = 0
    for row in rows:
        text = orjson.dumps(row, default=str, option=orjson.OPT_UTC_Z)
        size += len(text)
        if size > _MOST_BYTES:
            break
        held.append(orjson.Fragment(text))
    return answer({name: held, "truncated": len(held) < len(rows)})


def _add_errors(app: FastAPI) -> None:
    async def refused(_: Request, error: Exception) -> Response:
        assert isinstance(error, Refused)
        return refusal(error)

    async def invalid(_: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        first = error.errors()[0]
        return refusal(Refused(400, f"{'.'.join(map(str, first['loc'][1:]))}: {first['msg']}"))

    async def missing(_: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return refusal(Refused(error.status_code, str(error.detail)))

    async def away(_: Request, error: Exception) -> Response:
        return refusal(Refused(503, "the database is away", 5))

    handlers: list[tuple[type[Exception], Callable[..., Any]]] = [
        (Refused, refused),
        (RequestValidationError, invalid),
        (HTTPException, missing),
        (MoiraeError, away),
    ]
    for kind, handler in handlers:
        app.add_exception_handler(kind, handler)
