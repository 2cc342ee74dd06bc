"""Errors of routes as problem details."""

import asyncio

import httpx
import pytest
from fastapi import FastAPI

import sql
from archiver.errors import LogDamaged, StorageFailed
from moirae.server.app import _add_error_handlers


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
    _add_error_handlers(app)

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
