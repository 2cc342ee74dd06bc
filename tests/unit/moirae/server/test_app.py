"""Errors of routes as problem details."""

import asyncio
from typing import Any
from unittest.mock import MagicMock

import httpx
import pytest
from fastapi import FastAPI

import sql
from archiver.errors import LogDamaged, StorageFailed
from moirae.config import Settings
from moirae.server.access import AccessMiddleware
from moirae.server.app import _add_error_handlers, _create_routes
from moirae.server.route_table import RouteTable


@pytest.mark.parametrize(
    ("error", "status", "kind", "detail"),
    [
        (
            StorageFailed("the archive s3://b is away"),
            503,
            "unreachable",
            "the archive s3://b is away",
        ),
        (LogDamaged("version 3 cannot be parsed"), 503, "failed", "version 3 cannot be parsed"),
        (
            sql.DataError("date out of range\nLINE 1"),
            400,
            "invalid",
            "invalid value: date out of range",
        ),
    ],
)
def test_error_of_a_route_is_explained(
    error: Exception, status: int, kind: str, detail: str
) -> None:
    app = FastAPI()
    _add_error_handlers(app, RouteTable())

    @app.get("/")
    def fail() -> None:
        raise error

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get("/")

    response = asyncio.run(ask())
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    problem = response.json()
    assert (problem["type"], problem["detail"]) == (f"urn:moirae:problem:{kind}", detail)


@pytest.mark.parametrize(
    ("path", "accept", "status", "media_type"),
    [
        ("/nosuch", "text/html,application/xhtml+xml,*/*;q=0.8", 404, "text/html; charset=utf-8"),
        ("/alerts", "text/html", 404, "text/html; charset=utf-8"),
        ("/nosuch", "*/*", 401, "application/problem+json"),
        ("/api/v1/nosuch", "text/html", 401, "application/problem+json"),
        ("/api/v1/alerts", "text/html", 401, "application/problem+json"),
        ("/-/nosuch", "text/html", 401, "application/problem+json"),
        ("/metrics", "text/html", 401, "application/problem+json"),
    ],
)
def test_browser_gets_a_page_for_an_unknown_address(
    path: str, accept: str, status: int, media_type: str
) -> None:
    pool: Any = MagicMock()
    app, routes = _create_routes(Settings(), pool, pool)
    middleware = AccessMiddleware(app, pool, [], RouteTable(routes))

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=middleware)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get(path, headers={"Accept": accept})

    response = asyncio.run(ask())
    assert (response.status_code, response.headers["content-type"]) == (status, media_type)
