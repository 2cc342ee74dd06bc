"""The dashboard: its page for all addresses of pages, and its built files."""

import gzip
import re
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request
from starlette.responses import Response

from moirae.errors import RequestRejected
from moirae.server.route_table import RouteAccess

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; font-src 'self'; manifest-src 'self'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
_PAGE = "index.html"
_PAGE_PATHS = (
    "/",
    "/alerts/{alert}",
    "/compare/{event}/{past}",
    "/history",
    "/query",
    "/incidents",
    "/incidents/{incident}",
    "/receivers",
    "/receivers/{receiver}",
    "/report",
    "/rules",
    "/rules/{rule:path}",
    "/network",
    "/silences",
    "/system",
    "/try",
    "/try/{rule:path}",
)
_FILE_PATH = "/static/{name}"
_MEDIA_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "woff2": "font/woff2",
}
# The names of built files contain a hash of their content; the page names the present ones.
_FOREVER = "public, max-age=31536000, immutable"
_REVALIDATE = "no-cache"
_HASHED_NAME = re.compile(r"[\w.]+-[\w-]{8}\.\w+")

ROUTES = [
    *(RouteAccess("GET", path, None) for path in _PAGE_PATHS),
    RouteAccess("GET", _FILE_PATH, None),
]


def add_page_routes(app: FastAPI) -> list[RouteAccess]:
    """Add the routes of the dashboard. They hold no data, so they need no token."""
    for path in _PAGE_PATHS:
        app.add_api_route(path, _make_page_route(), include_in_schema=False)

    @app.get(_FILE_PATH, include_in_schema=False)
    async def send_file(name: str, request: Request) -> Response:
        if name not in list_files() or name == _PAGE:
            raise RequestRejected(404, "no such file")
        is_hashed = _HASHED_NAME.fullmatch(name) is not None
        return _respond(name, request, _FOREVER if is_hashed else _REVALIDATE)

    return ROUTES


def send_unknown_page(request: Request) -> Response:
    """The dashboard, which says that its address has no page."""
    return _respond(_PAGE, request, _REVALIDATE, status=404)


def make_file_route(file_name: str, media_type: str) -> Callable[[], Any]:
    """A handler that sends a file which is no part of the built dashboard."""
    content = files("moirae.server").joinpath("pages", file_name).read_bytes()

    async def send_file() -> Response:
        return Response(
            content, headers={"Content-Security-Policy": PAGE_POLICY}, media_type=media_type
        )

    return send_file


@cache
def list_files() -> frozenset[str]:
    """The names of the built files."""
    folder = _folder()
    if not folder.is_dir():
        return frozenset()
    return frozenset(entry.name for entry in folder.iterdir() if entry.is_file())


def _make_page_route() -> Callable[[Request], Any]:
    async def send_page(request: Request) -> Response:
        return _respond(_PAGE, request, _REVALIDATE)

    return send_page


def _respond(name: str, request: Request, cache_control: str, status: int = 200) -> Response:
    headers = {
        "Cache-Control": cache_control,
        "Content-Security-Policy": PAGE_POLICY,
        "Vary": "Accept-Encoding",
    }
    content, compressed = _load(name)
    if compressed is not None and "gzip" in request.headers.get("accept-encoding", ""):
        content = compressed
        headers["Content-Encoding"] = "gzip"
    media_type = _MEDIA_TYPES.get(name.rpartition(".")[2], "application/octet-stream")
    return Response(content, status, headers=headers, media_type=media_type)


@cache
def _load(name: str) -> tuple[bytes, bytes | None]:
    """A built file, and its compressed form if that is smaller."""
    content = _folder().joinpath(name).read_bytes()
    compressed = gzip.compress(content, mtime=0)
    return content, compressed if len(compressed) < len(content) else None


def _folder() -> Any:
    return files("moirae").joinpath("dashboard", "static")
