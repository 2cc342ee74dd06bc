"""The files of the dashboard."""

import asyncio
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from moirae.errors import RequestRejected
from moirae.server.responses import error_response
from moirae.server.route_table import RouteTable
from moirae.server.routes import pages


@pytest.fixture(scope="module")
def app() -> FastAPI:
    app = FastAPI()
    pages.add_page_routes(app)
    app.add_exception_handler(RequestRejected, lambda _, error: error_response(error))  # type: ignore[arg-type]
    return app


def get(app: FastAPI, path: str, encoding: str = "identity") -> httpx.Response:
    async def request() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://a") as client:
            return await client.get(path, headers={"Accept-Encoding": encoding})

    return asyncio.run(request())


@pytest.mark.parametrize(
    "path", ["/", "/alerts/a", "/compare/a/b", "/history", "/rules", "/rules/g/r", "/system"]
)
def test_each_page_address_has_the_page_and_a_strict_policy(app: FastAPI, path: str) -> None:
    answer = get(app, path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "default-src 'none'" in policy
    assert RouteTable(pages.ROUTES).find("GET", path).role is None


def test_hashed_files_are_cached_for_ever_and_compressed(app: FastAPI) -> None:
    names = [name for name in pages.list_files() if name.endswith((".js", ".css"))]
    assert names
    for name in names:
        plain = get(app, f"/static/{name}")
        assert "immutable" in plain.headers["cache-control"]
        compressed = get(app, f"/static/{name}", "gzip")
        assert compressed.headers["content-encoding"] == "gzip"
        assert compressed.content == plain.content
        assert int(compressed.headers["content-length"]) < len(plain.content) / 2


def test_files_without_hash_are_revalidated(app: FastAPI) -> None:
    assert get(app, "/static/icon.svg").headers["cache-control"] == "no-cache"


@pytest.mark.parametrize("name", ["index.html", "none.js", "..%2fbuild.py", "%2e%2e"])
def test_other_files_are_not_served(app: FastAPI, name: str) -> None:
    assert get(app, f"/static/{name}").status_code == 404


def test_dashboard_that_was_not_built_has_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "_folder", lambda: tmp_path / "static")
    pages.list_files.cache_clear()
    try:
        assert pages.list_files() == frozenset()
    finally:
        pages.list_files.cache_clear()
